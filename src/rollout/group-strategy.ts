import { invalidOption, wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { commonFailures } from './failure-kinds.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';

/**
 * What happens to a group in which some rollouts do not complete.
 *
 * - `minimum`: the group trains with its completed rollouts if there are enough: at least `rollouts` of them, or at
 *   least `share` of the group (rounded up), or both if both are set. Default: 2 rollouts, because a single one cannot
 *   be compared.
 * - `retry`: a failed rollout runs again with another seed, up to `attempts` attempts in total. Cancelled rollouts are
 *   not retried, and the counts include every attempt. At least `minimum` rollouts must complete, default 2.
 * - `fail_fast`: the first failed rollout cancels the others, and the group is dropped.
 *
 * If long or hard rollouts fail more often, the training data is biased against them. `retry` and `fail_fast` spend
 * more to keep groups whole; `minimum` spends nothing and accepts the bias.
 */
export type GroupStrategy =
  | { type: 'fail_fast' }
  | { type: 'retry'; attempts: number; minimum?: number }
  | { type: 'minimum'; share?: number; rollouts?: number };

const code = 'invalid_rollout_option';

/** Option names of each strategy. */
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
 * @throws OptionError if a group of this size can never satisfy the strategy.
 */
export function neededRollouts(strategy: GroupStrategy, rolloutsPerGroup: number): number {
  if (!Object.hasOwn(kinds, strategy.type))
    throw invalidOption(
      code,
      'groupStrategy.type',
      strategy.type,
      `Pass one of ${Object.keys(kinds).join(', ')}.`,
    );
  checkOptionNames(`The group strategy "${strategy.type}"`, strategy, kinds[strategy.type]);
  const compared = Math.min(2, rolloutsPerGroup);
  const named = (option: string, value: number) => {
    if (wholeNumberOption(code, option, value, 1) <= rolloutsPerGroup) return value;
    throw invalidOption(
      code,
      option,
      value,
      `A group has only ${rolloutsPerGroup} rollouts. Pass at most ${rolloutsPerGroup}.`,
    );
  };
  if (strategy.type === 'fail_fast') return rolloutsPerGroup;
  if (strategy.type === 'retry') {
    wholeNumberOption(code, 'groupStrategy.attempts', strategy.attempts, 1);
    return strategy.minimum === undefined ? compared : named('groupStrategy.minimum', strategy.minimum);
  }
  const { share, rollouts } = strategy;
  if (share !== undefined && !(share > 0 && share <= 1))
    throw invalidOption(code, 'groupStrategy.share', share, 'Pass a share above 0 and up to 1.');
  const byShare = share === undefined ? 1 : Math.ceil(share * rolloutsPerGroup);
  if (rollouts === undefined) return share === undefined ? compared : byShare;
  // The default of 2 was not set by the caller, so it must not reject a group of 1.
  return strategy === defaultGroupStrategy
    ? compared
    : Math.max(byShare, named('groupStrategy.rollouts', rollouts));
}

/** Maximum number of attempts for each index of the group. */
export function attemptsOf(strategy: GroupStrategy): number {
  return strategy.type === 'retry' ? strategy.attempts : 1;
}

/** Why a finished group is not trained on; null if it is. */
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
      `${completed} of the group's ${rolloutsPerGroup} rollouts completed, and its strategy (${strategy.type}) ` +
      `requires ${needed}: ${commonFailures([{ rollouts }])}.`,
  };
}
