import { invalidOption, wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { AdaptiveLimit } from './adaptive-limit.ts';
import { CallQueue } from './call-queue.ts';

/** How a model call ended, as reported to its budget. */
export interface CallOutcome {
  /** `rate_limited`: the service answered 429 or 503 at least once, even if a retry succeeded. */
  status: 'answered' | 'rate_limited' | 'failed';
  /** Milliseconds from getting the slot to the end of the answer. */
  durationMs: number;
}

/** A slot for one model call in flight. Release it once. */
export interface CallPlace {
  /** Reports a 429 or 503 immediately. The call keeps its slot while it waits for its retry. */
  rateLimited(): void;
  release(outcome: CallOutcome): void;
}

/** Statistics of a budget. */
export interface CallBudgetStats {
  /** Current limit on the calls in flight. */
  limit: number;
  inFlight: number;
  waiting: number;
  /** Largest number of calls in flight at the same time. */
  peak: number;
  /** Number of decreases of the limit, by reason. */
  decreases: { rateLimited: number; latency: number };
}

/** A limit on the model calls in flight, shared by all handles and endpoints that use it. */
export interface CallBudget {
  /** Waits for a slot, first come, first served. @throws the reason of `signal`. */
  acquire(signal?: AbortSignal): Promise<CallPlace>;
}

/** A budget with statistics. */
export interface MeteredCallBudget extends CallBudget {
  stats(): CallBudgetStats;
}

/** Bounds of a limit that adapts to the service. */
export interface AdaptiveConcurrency {
  min: number;
  max: number;
  /** Initial limit. Default: `min`. */
  start?: number;
}

export interface CallBudgetOptions {
  /** Maximum number of calls in flight: a fixed number, or bounds of an adaptive limit. */
  concurrency: number | AdaptiveConcurrency;
  /**
   * Mean latency of a call in milliseconds above which the limit is lowered. Only with an adaptive limit. Default:
   * 3 times the smallest of the last 32 means, each over a round trip.
   */
  targetLatencyMs?: number;
}

const callBudgetNames = {
  concurrency: { min: true, max: true, start: true } satisfies OptionNames<AdaptiveConcurrency>,
  targetLatencyMs: true,
} satisfies OptionNames<CallBudgetOptions>;

/**
 * A limit on the model calls in flight, shared by all handles that use it:
 *
 *     const budget = callBudget({ concurrency: { min: 8, max: 512 } });
 *     await runGroups({ model: model.with({ budget }), concurrency: 2000, ... });
 *
 * With bounds the limit adapts, as in TCP: it rises while calls are answered and drops by a quarter at a 429, a 503 or
 * a latency above the target, at most once per round trip. The client retries calls answered with 429 or 503; they keep
 * their slot meanwhile.
 * @throws OptionError of code `invalid_call_budget`
 */
export function callBudget(options: CallBudgetOptions): MeteredCallBudget {
  checkOptionNames('callBudget()', options, callBudgetNames);
  const { concurrency, targetLatencyMs } = options;
  if (typeof concurrency === 'number') {
    if (targetLatencyMs === undefined) return new QueuedBudget(wholeNumber('concurrency', concurrency));
    const remedy = `The concurrency of ${concurrency} is fixed and follows no latency: leave it out, or give { min, max }.`;
    throw invalidOption('invalid_call_budget', 'targetLatencyMs', targetLatencyMs, remedy);
  }
  const { min, max, start = min } = concurrency;
  wholeNumber('concurrency.min', min);
  wholeNumber('concurrency.max', max, min);
  wholeNumber('concurrency.start', start, min);
  if (start > max)
    throw invalidOption('invalid_call_budget', 'concurrency.start', start, `Give at most ${max}, the max.`);
  if (targetLatencyMs !== undefined && !(targetLatencyMs > 0))
    throw invalidOption(
      'invalid_call_budget',
      'targetLatencyMs',
      targetLatencyMs,
      'Give a time in milliseconds above 0.',
    );
  return new QueuedBudget(new AdaptiveLimit({ min, max, start, targetLatencyMs }));
}

/** A queue in front of the model, with a fixed or adaptive limit. */
class QueuedBudget implements MeteredCallBudget {
  readonly #queue: CallQueue;
  readonly #adaptive: AdaptiveLimit | undefined;

  constructor(limit: number | AdaptiveLimit) {
    this.#adaptive = typeof limit === 'number' ? undefined : limit;
    this.#queue = new CallQueue(typeof limit === 'number' ? limit : limit.value);
  }

  async acquire(signal?: AbortSignal): Promise<CallPlace> {
    await this.#queue.enter(signal);
    const epoch = this.#adaptive?.epoch ?? 0;
    let isReleased = false;
    return {
      rateLimited: () => this.#learn((limit) => limit.rateLimited(epoch)),
      release: (outcome) => {
        if (isReleased) return;
        isReleased = true;
        this.#learn((limit) => this.#hear(limit, epoch, outcome));
        this.#queue.leave();
      },
    };
  }

  stats(): CallBudgetStats {
    const { limit, inFlight, waiting, peak } = this.#queue;
    const decreases = { rateLimited: 0, latency: 0, ...this.#adaptive?.decreases };
    return { limit, inFlight, waiting, peak, decreases };
  }

  #hear(limit: AdaptiveLimit, epoch: number, { status, durationMs }: CallOutcome): void {
    const isFull = this.#queue.waiting > 0 || this.#queue.inFlight >= this.#queue.limit;
    if (status === 'answered') limit.answered(epoch, { durationMs, isFull });
    if (status === 'rate_limited') limit.rateLimited(epoch);
  }

  #learn(from: (limit: AdaptiveLimit) => void): void {
    if (!this.#adaptive) return;
    from(this.#adaptive);
    if (this.#queue.limit !== this.#adaptive.value) this.#queue.limit = this.#adaptive.value;
  }
}

function wholeNumber(option: string, value: number, least = 1): number {
  return wholeNumberOption('invalid_call_budget', option, value, least);
}
