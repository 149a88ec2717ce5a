import { invalidOption, wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { AdaptiveLimit } from './adaptive-limit.ts';
import { CallQueue } from './call-queue.ts';

/** How a model call ended, for whoever decides how many may be in flight. */
export interface CallOutcome {
  /** `rate_limited`: the service answered 429 or 503 at least once, whatever came of it then. */
  status: 'answered' | 'rate_limited' | 'failed';
  /** From having the place to the end of the answer, in milliseconds. */
  durationMs: number;
}

/** A place among the model calls in flight. Release it once. */
export interface CallPlace {
  /** Says at once that the service answered 429 or 503; the call keeps its place while it waits to be repeated. */
  rateLimited(): void;
  release(outcome: CallOutcome): void;
}

/** What a budget has seen, and what it does now. */
export interface CallBudgetStats {
  /** Calls that may be in flight. */
  limit: number;
  inFlight: number;
  waiting: number;
  /** Largest number in flight at once. */
  peak: number;
  /** How often the limit was lowered, by reason. */
  decreases: { rateLimited: number; latency: number };
}

/** One bound on the model calls in flight, shared by all handles and endpoints that it is given to. */
export interface CallBudget {
  /** Waits for a place, first come first served. @throws the reason of `signal`. */
  acquire(signal?: AbortSignal): Promise<CallPlace>;
}

/** A budget that says what it does. */
export interface MeteredCallBudget extends CallBudget {
  stats(): CallBudgetStats;
}

/** Bounds within which a budget finds out how many calls the service bears. */
export interface AdaptiveConcurrency {
  min: number;
  max: number;
  /** Where it begins. Default: `min`. */
  start?: number;
}

export interface CallBudgetOptions {
  /** Calls in flight: a number that stays, or bounds within which it follows what comes back. */
  concurrency: number | AdaptiveConcurrency;
  /**
   * Mean latency of a call in milliseconds beyond which the limit is lowered; only where `concurrency` has bounds.
   * Default: 3 times the smallest of the last 32 means, each over a round trip.
   */
  targetLatencyMs?: number;
}

const callBudgetNames = {
  concurrency: { min: true, max: true, start: true } satisfies OptionNames<AdaptiveConcurrency>,
  targetLatencyMs: true,
} satisfies OptionNames<CallBudgetOptions>;

/**
 * A bound on the model calls in flight, for all that it is given to:
 *
 *     const budget = callBudget({ concurrency: { min: 8, max: 512 } });
 *     await runGroups({ model: model.with({ budget }), concurrency: 2000, ... });
 *
 * With bounds it finds the number itself, as TCP does: up while calls are answered, down by a quarter at a 429, a 503
 * or a latency beyond the target, at most once in a round trip. The client repeats what was answered 429 or 503; the
 * call keeps its place meanwhile.
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

/** A queue before the model; its limit stays, or follows what comes of the calls. */
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
