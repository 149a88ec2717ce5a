import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import type { Environment } from '../environment/index.ts';
import type { RolloutModel } from '../model/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { longestTimerMs } from '../util/deadline.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { nextGroupOrder, type RolloutExecutor } from './executor.ts';
import { attemptsOf, defaultGroupStrategy, type GroupStrategy, whyDropped } from './group-strategy.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';
import { RolloutGroup } from './rollout-group.ts';
import { settleGroup } from './settle-group.ts';

export interface RunGroupOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  /** As the environment's schema gave it. */
  scenario: z.output<Schema>;
  rolloutsPerGroup: number;
  /** Pin it (`model.at(step)`): then a call that another step answers fails its rollout. */
  model: RolloutModel;
  /** Number of the group in its step. */
  group: number;
  /** All randomness of the rollouts follows from it, from `group`, and from their places and attempts. */
  seed: number;
  executor: RolloutExecutor;
  /** Default: train with what completed, where that is 2 rollouts or more. */
  strategy?: GroupStrategy | undefined;
  /** Deadline of one rollout and its rewards, in milliseconds. */
  timeoutMs: number;
  /** Deadline of each reward, in milliseconds. */
  rewardTimeoutMs: number;
  /** Deadline of the whole group in milliseconds, from its start: waiting for room counts. */
  groupTimeoutMs: number;
  onUnexpectedCall: 'error' | 'warn';
  /** Hears of each attempt as it ends; `isLast` where no further one follows in its place. */
  onRollout?: ((rollout: Rollout<Outcome>, place: { isLast: boolean }) => void) | undefined;
  /** Cancels what has not ended. */
  signal: AbortSignal | undefined;
}

const runGroupNames = {
  environment: true,
  scenario: true,
  rolloutsPerGroup: true,
  model: true,
  group: true,
  seed: true,
  executor: true,
  strategy: true,
  timeoutMs: true,
  rewardTimeoutMs: true,
  groupTimeoutMs: true,
  onUnexpectedCall: true,
  onRollout: true,
  signal: true,
} satisfies OptionNames<RunGroupOptions<z.ZodType, unknown>>;

/**
 * Runs the rollouts of one scenario to their ends, has them rewarded as a group, and says whether the group trains.
 * Whatever happens within, it ends by its deadlines and does not throw.
 * @throws OptionError before any rollout begins.
 */
export async function runGroup<Schema extends z.ZodType, Outcome>(
  options: RunGroupOptions<Schema, Outcome>,
): Promise<RolloutGroup<z.output<Schema>>> {
  checkOptionNames('runGroup()', options, runGroupNames);
  return withSpan(spanName.group, { [attribute.groupIndex]: options.group }, () => gather(options));
}

async function gather<Schema extends z.ZodType, Outcome>(
  options: RunGroupOptions<Schema, Outcome>,
): Promise<RolloutGroup<z.output<Schema>>> {
  const { environment, scenario, rolloutsPerGroup, group, groupTimeoutMs, rewardTimeoutMs } = options;
  const strategy = options.strategy ?? defaultGroupStrategy;
  const order = nextGroupOrder();
  const ending = new GroupEnding(groupTimeoutMs, options.signal);
  let firstFailure: RolloutFailure | null = null;
  try {
    const places = Array.from({ length: rolloutsPerGroup }, async (_, index) => {
      const tried: Rollout<Outcome>[] = [];
      for (let attempt = 0; ; attempt++) {
        const rollout = ending.judge(await runAttempt(options, ending.signal, { index, attempt, order }));
        tried.push(rollout);
        const isLast = rollout.status !== 'failed' || attempt + 1 >= attemptsOf(strategy) || ending.hasEnded;
        if (isLast && rollout.status === 'failed') firstFailure ??= rollout.failure;
        if (strategy.type === 'fail_fast' && rollout.status === 'failed')
          ending.failFast(index, rollout.failure);
        options.onRollout?.(rollout, { isLast });
        if (isLast) return tried;
      }
    });
    const ended = (await Promise.all(places)).flat();
    const settled = await settleGroup({
      environment,
      scenario,
      group,
      rollouts: ended,
      timeoutMs: rewardTimeoutMs,
      signal: ending.signal,
    });
    const rollouts = settled.map((rollout) => ending.judge(rollout));
    const dropped = whyDropped(strategy, rollouts, rolloutsPerGroup);
    const droppedBecause = strategy.type === 'fail_fast' && dropped ? (firstFailure ?? dropped) : dropped;
    return new RolloutGroup<z.output<Schema>>({ index: group, scenario, rollouts, droppedBecause });
  } finally {
    ending.dispose();
  }
}

function runAttempt<Schema extends z.ZodType, Outcome>(
  options: RunGroupOptions<Schema, Outcome>,
  signal: AbortSignal,
  { index, attempt, order }: { index: number; attempt: number; order: number },
): Promise<Rollout<Outcome>> {
  const { environment, scenario, model, group, timeoutMs, rewardTimeoutMs, onUnexpectedCall } = options;
  const path = attempt === 0 ? [group, index] : [group, index, attempt];
  const seed = deriveSeed(options.seed, ...path);
  return options.executor.run(
    {
      environment,
      scenario,
      model,
      group,
      index,
      attempt,
      seed,
      timeoutMs,
      rewardTimeoutMs,
      onUnexpectedCall,
      signal,
    },
    { order },
  );
}

/** One signal that ends a group's rollouts, and what it makes of those that it ended. */
export class GroupEnding {
  readonly #controller = new AbortController();
  readonly #timeoutMs: number;
  readonly #run: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  #verdict: { status: 'failed' | 'cancelled'; failure: RolloutFailure } | undefined;

  constructor(timeoutMs: number, run: AbortSignal | undefined) {
    this.#timeoutMs = timeoutMs;
    this.#run = run;
    if (run?.aborted) this.#follow();
    else run?.addEventListener('abort', this.#follow, { once: true });
    if (timeoutMs !== Number.POSITIVE_INFINITY)
      this.#timer = setTimeout(this.#expire, Math.min(timeoutMs, longestTimerMs));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get hasEnded(): boolean {
    return this.signal.aborted;
  }

  /** Cancels what has not ended, because the rollout in this place has failed. */
  failFast(index: number, { code, message }: RolloutFailure): void {
    this.#end('cancelled', {
      code: 'sibling_failed',
      message: `Rollout ${index} of the same group failed first (${code}: ${message}), and its strategy is fail_fast.`,
    });
  }

  /** A rollout as the group sees it: one that the group itself ended has the group's reason. */
  judge<Outcome>(rollout: Rollout<Outcome>): Rollout<Outcome> {
    if (rollout.status !== 'cancelled' || !this.#verdict) return rollout;
    return { ...rollout, ...this.#verdict };
  }

  /** Lets go of the timer and of the run's signal. */
  dispose(): void {
    clearTimeout(this.#timer);
    this.#run?.removeEventListener('abort', this.#follow);
  }

  #end(status: 'failed' | 'cancelled', failure: RolloutFailure): void {
    if (this.hasEnded) return;
    this.#verdict = { status, failure };
    this.#controller.abort(new MartingaleError(failure.code, failure.message));
  }

  #expire = (): void =>
    this.#end('failed', {
      code: 'group_timeout',
      message:
        `The group had not ended after ${this.#timeoutMs} ms, waiting for room included. Raise groupTimeoutMs or ` +
        'the concurrency, or ask for fewer rollouts at once.',
    });

  #follow = (): void => this.#controller.abort(this.#run?.reason);
}
