import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import type { Environment } from '../environment/index.ts';
import type { RolloutModel } from '../model/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { Deadline } from '../util/deadline.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { attemptsOf, whyDropped } from './group-strategy.ts';
import type { Rollout, RolloutFailure, UnrewardedEnd } from './rollout.ts';
import { RolloutGroup } from './rollout-group.ts';
import { type RolloutSettings, rolloutSettingNames, wholeRolloutSettings } from './rollout-settings.ts';
import { checkSeats, choosePlayers } from './seat-models.ts';
import { settleGroup } from './settle-group.ts';

/** `seed`, `group`, index and attempt determine all randomness of a rollout. */
export interface RunGroupOptions<Schema extends z.ZodType, Outcome> extends RolloutSettings {
  environment: Environment<Schema, Outcome>;
  /** Parsed by the environment's schema. */
  scenario: z.output<Schema>;
  rolloutsPerGroup: number;
  /** Pin it (`model.at(step)`), so that a call answered by another step fails its rollout. */
  model: RolloutModel;
  /** Index of the group in its step. */
  group: number;
  /** Called with each attempt when it ends. `isLast` is false if the same index is tried again. */
  onRollout?: ((rollout: Rollout<Outcome>, attempt: { isLast: boolean }) => void) | undefined;
  /** Cancels the unfinished rollouts. */
  signal?: AbortSignal | undefined;
}

const runGroupNames = {
  ...rolloutSettingNames,
  environment: true,
  scenario: true,
  rolloutsPerGroup: true,
  model: true,
  group: true,
  onRollout: 'function',
  signal: 'signal',
} satisfies OptionNames<RunGroupOptions<z.ZodType, unknown>>;

let groupsStarted = 0;

/**
 * Runs the rollouts of one scenario, rewards them as a group, and decides whether the group is trained on. Once the
 * rollouts have begun, it ends within its deadlines.
 * @throws OptionError before any rollout begins; any error thrown by `onRollout`, when all rollouts have ended.
 */
export async function runGroup<Schema extends z.ZodType, Outcome>(
  options: RunGroupOptions<Schema, Outcome>,
): Promise<RolloutGroup<z.output<Schema>>> {
  checkOptionNames('runGroup()', options, runGroupNames);
  return withSpan(spanName.group, { [attribute.groupIndex]: options.group }, () => runAll(options));
}

async function runAll<Schema extends z.ZodType, Outcome>(
  options: RunGroupOptions<Schema, Outcome>,
): Promise<RolloutGroup<z.output<Schema>>> {
  const { environment, scenario, rolloutsPerGroup, model, group, onRollout } = options;
  const {
    executor,
    groupStrategy,
    seed,
    seats,
    timeoutMs,
    rewardTimeoutMs,
    groupTimeoutMs,
    onUnexpectedCall,
  } = wholeRolloutSettings(options, rolloutsPerGroup);
  checkSeats(environment, seats);
  // Grows with each group, so that retries of an earlier group run before rollouts of a later one.
  const order = groupsStarted++;
  const ending = new GroupEnding(groupTimeoutMs, options.signal);
  const { signal } = ending;
  const isFailFast = groupStrategy.type === 'fail_fast';
  let firstFailure: RolloutFailure | null = null;

  const shared = {
    environment,
    scenario,
    model,
    players: choosePlayers(seats, { environment, model, seed: deriveSeed(seed, group) }),
    group,
    timeoutMs,
    rewardTimeoutMs,
    onUnexpectedCall,
    signal,
  };
  const runAttempt = (index: number, attempt: number) => {
    const path = attempt === 0 ? [group, index] : [group, index, attempt];
    return executor.run({ ...shared, index, attempt, seed: deriveSeed(seed, ...path) }, { order });
  };
  const runIndex = async (index: number) => {
    const tried: Rollout<Outcome>[] = [];
    for (let attempt = 0; ; attempt++) {
      const rollout = ending.applyReason(await runAttempt(index, attempt));
      tried.push(rollout);
      const isLast =
        rollout.status !== 'failed' || attempt + 1 >= attemptsOf(groupStrategy) || signal.aborted;
      if (isLast && rollout.status === 'failed') firstFailure ??= rollout.failure;
      if (isFailFast && rollout.status === 'failed') ending.failFast(index, rollout.failure);
      onRollout?.(rollout, { isLast });
      if (isLast) return tried;
    }
  };
  const running = Array.from({ length: rolloutsPerGroup }, (_, index) => runIndex(index));
  try {
    const ended = (await Promise.all(running)).flat();
    const settled = await settleGroup({ ...shared, rollouts: ended, timeoutMs: rewardTimeoutMs });
    const rollouts = settled.map((rollout) => ending.applyReason(rollout));
    const dropped = whyDropped(groupStrategy, rollouts, rolloutsPerGroup);
    const droppedBecause = isFailFast && dropped ? (firstFailure ?? dropped) : dropped;
    const title = environment.titleOf(scenario);
    return new RolloutGroup<z.output<Schema>>({ index: group, scenario, title, rollouts, droppedBecause });
  } catch (error) {
    ending.abort(error);
    await Promise.allSettled(running);
    throw error;
  } finally {
    ending.dispose();
  }
}

/** Ends the rollouts of a group (deadline, cancellation, fail fast) and remembers the reason. */
class GroupEnding {
  readonly #deadline: Deadline;
  #end: UnrewardedEnd | undefined;

  constructor(timeoutMs: number, run: AbortSignal | undefined) {
    this.#deadline = new Deadline(timeoutMs, run, () =>
      this.#reasonOf({
        status: 'failed',
        failure: {
          code: 'group_timeout',
          message:
            `The group did not end within ${timeoutMs} ms, including the wait for free slots. Raise groupTimeoutMs ` +
            'or the concurrency, or run fewer rollouts at a time.',
        },
      }),
    );
  }

  get signal(): AbortSignal {
    return this.#deadline.signal;
  }

  /** Cancels the unfinished rollouts because this one failed. */
  failFast(index: number, { code, message }: RolloutFailure): void {
    const failure = {
      code: 'sibling_failed',
      message: `Rollout ${index} of the same group failed first (${code}: ${message}), and its strategy is fail_fast.`,
    };
    this.#deadline.abort(this.#reasonOf({ status: 'cancelled', failure }));
  }

  /** Cancels the unfinished rollouts because the group cannot go on. */
  abort(error: unknown): void {
    this.#deadline.abort(error);
  }

  /** Gives a rollout that the group itself ended the group's status and reason. */
  applyReason<Outcome>(rollout: Rollout<Outcome>): Rollout<Outcome> {
    return rollout.status === 'cancelled' && this.#end ? { ...rollout, ...this.#end } : rollout;
  }

  /** Stops the timer and detaches from the run's signal. */
  dispose(): void {
    this.#deadline.clear();
  }

  /** The reason of an abort. Only the first one counts. */
  #reasonOf(end: UnrewardedEnd): MartingaleError {
    if (!this.signal.aborted) this.#end = end;
    return new MartingaleError(end.failure.code, end.failure.message);
  }
}
