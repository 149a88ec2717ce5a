import { invalidOption, wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';
import { commonFailures } from './rollout.ts';

/**
 * What happens to a group of which not all rollouts complete.
 *
 * - `minimum`: it trains with those that completed, where they are enough. `rollouts` is how many that is, `share`
 *   says it as a share of the group (rounded up); where both are given, both hold. Default: 2 rollouts, since one
 *   alone has nothing to be compared with.
 * - `retry`: a failed rollout runs again under another seed, up to `attempts` times in all; each attempt is a rollout
 *   of its own in the counts, and cancelled ones are not repeated. Then as `minimum`: `minimum` rollouts, default 2.
 * - `fail_fast`: the first failed rollout cancels the others, and the group is dropped.
 *
 * Rollouts that fail because they are long, or hard, take their kind out of what is trained on: `retry` and
 * `fail_fast` spend more to keep groups whole, `minimum` spends nothing and accepts the bias.
 */
export type GroupStrategy =
  | { type: 'fail_fast' }
  | { type: 'retry'; attempts: number; minimum?: number }
  | { type: 'minimum'; share?: number; rollouts?: number };

const code = 'invalid_rollout_option';

/** Names of the options of each kind. */
const kinds: {
  readonly [Type in GroupStrategy['type']]: OptionNames<Extract<GroupStrategy, { type: Type }>>;
} = {
  fail_fast: { type: true },
  retry: { type: true, attempts: true, minimum: true },
  minimum: { type: true, share: true, rollouts: true },
};

export const defaultGroupStrategy: GroupStrategy = { type: 'minimum', rollouts: 2 };

/**
 * How many rollouts of a group must complete.
 * @throws OptionError for a strategy that a group of this size cannot meet.
 */
export function neededRollouts(strategy: GroupStrategy, rolloutsPerGroup: number): number {
  if (!Object.hasOwn(kinds, strategy.type))
    throw invalidOption(code, 'groupStrategy.type', strategy.type, `Give ${Object.keys(kinds).join(', ')}.`);
  checkOptionNames(`The group strategy "${strategy.type}"`, strategy, kinds[strategy.type]);
  const compared = Math.min(2, rolloutsPerGroup);
  const named = (option: string, value: number) => {
    if (wholeNumberOption(code, option, value, 1) <= rolloutsPerGroup) return value;
    throw invalidOption(
      code,
      option,
      value,
      `No group could train: a group has ${rolloutsPerGroup} rollouts. Give at most as many.`,
    );
  };
  if (strategy.type === 'fail_fast') return rolloutsPerGroup;
  if (strategy.type === 'retry') {
    wholeNumberOption(code, 'groupStrategy.attempts', strategy.attempts, 1);
    return strategy.minimum === undefined ? compared : named('groupStrategy.minimum', strategy.minimum);
  }
  const { share, rollouts } = strategy;
  if (share !== undefined && !(share > 0 && share <= 1))
    throw invalidOption(code, 'groupStrategy.share', share, 'Give a share above 0 and up to 1.');
  const byShare = share === undefined ? 1 : Math.ceil(share * rolloutsPerGroup);
  if (rollouts === undefined) return share === undefined ? compared : byShare;
  // The default's 2 is no demand of the caller's on a group of 1.
  return strategy === defaultGroupStrategy
    ? compared
    : Math.max(byShare, named('groupStrategy.rollouts', rollouts));
}

/** How often a place of the group is tried. */
export function attemptsOf(strategy: GroupStrategy): number {
  return strategy.type === 'retry' ? strategy.attempts : 1;
}

/** Why a group whose rollouts have all ended is not trained on; null where it is. */
export function whyDropped(
  strategy: GroupStrategy,
  rollouts: readonly Rollout[],
  rolloutsPerGroup: number,
): RolloutFailure | null {
  const needed = neededRollouts(strategy, rolloutsPerGroup);
  const completed = rollouts.filter(({ status }) => status === 'completed').length;
  if (completed >= needed) return null;
  return {
    code: 'too_few_completed',
    message:
      `${completed} of the group's ${rolloutsPerGroup} rollouts completed and its strategy (${strategy.type}) asks ` +
      `for ${needed}: ${commonFailures([{ rollouts }])}.`,
  };
}
