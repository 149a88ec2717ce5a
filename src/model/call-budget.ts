import { invalidOption, wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { AdaptiveLimit } from './adaptive-limit.ts';

/** How a model call ended, as reported to its budget. */
export interface CallOutcome {
  /** `rate_limited`: the service answered 429 or 503 at least once, even if a retry succeeded. */
  status: 'answered' | 'rate_limited' | 'failed';
  /** Milliseconds from getting the slot to the end of the answer. */
  durationMs: number;
}

/** A slot for one model call in flight. Release it once. */
export interface CallSlot {
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
  acquire(signal?: AbortSignal): Promise<CallSlot>;
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
    const remedy = 'A fixed concurrency does not use it. Remove it, or pass { min, max }.';
    throw invalidOption('invalid_call_budget', 'targetLatencyMs', targetLatencyMs, remedy);
  }
  if (typeof concurrency?.min !== 'number')
    throw invalidOption(
      'invalid_call_budget',
      'concurrency',
      concurrency,
      'Pass a whole number of at least 1, or { min, max }.',
    );
  const { min, max, start = min } = concurrency;
  wholeNumber('concurrency.min', min);
  wholeNumber('concurrency.max', max, min);
  wholeNumber('concurrency.start', start, min);
  if (start > max)
    throw invalidOption('invalid_call_budget', 'concurrency.start', start, `Pass at most ${max}, the max.`);
  const timeRemedy = 'Pass a time in milliseconds above 0.';
  if (targetLatencyMs !== undefined && !(targetLatencyMs > 0))
    throw invalidOption('invalid_call_budget', 'targetLatencyMs', targetLatencyMs, timeRemedy);
  return new QueuedBudget(new AdaptiveLimit({ min, max, start, targetLatencyMs }));
}

/** A queue in front of the model, first come, first served, with a fixed or adaptive limit. */
class QueuedBudget implements MeteredCallBudget {
  readonly #limit: number | AdaptiveLimit;
  /** Each admits one waiting call. */
  readonly #waiting = new Set<() => void>();
  #inFlight = 0;
  #peak = 0;

  constructor(limit: number | AdaptiveLimit) {
    this.#limit = limit;
  }

  async acquire(signal?: AbortSignal): Promise<CallSlot> {
    signal?.throwIfAborted();
    if (this.#waiting.size > 0 || this.#inFlight >= this.#max) await this.#wait(signal);
    else this.#take();
    const adaptive = typeof this.#limit === 'number' ? undefined : this.#limit;
    const epoch = adaptive?.epoch ?? 0;
    let isReleased = false;
    return {
      rateLimited: () => adaptive?.rateLimited(epoch),
      release: ({ status, durationMs }) => {
        if (isReleased) return;
        isReleased = true;
        const isFull = this.#waiting.size > 0 || this.#inFlight >= this.#max;
        if (status === 'answered') adaptive?.answered(epoch, { durationMs, isFull });
        if (status === 'rate_limited') adaptive?.rateLimited(epoch);
        this.#inFlight--;
        // Calls in flight keep their slots when the limit drops.
        for (const admit of this.#waiting) {
          if (this.#inFlight >= this.#max) return;
          admit();
        }
      },
    };
  }

  stats(): CallBudgetStats {
    const decreases = {
      rateLimited: 0,
      latency: 0,
      ...(typeof this.#limit === 'object' && this.#limit.decreases),
    };
    return {
      limit: this.#max,
      inFlight: this.#inFlight,
      waiting: this.#waiting.size,
      peak: this.#peak,
      decreases,
    };
  }

  get #max(): number {
    return typeof this.#limit === 'number' ? this.#limit : this.#limit.value;
  }

  /** Resolves when the call has a slot. @throws the reason of `signal`. */
  #wait(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiting.delete(admit);
      reject(signal?.reason);
    };
    const admit = () => {
      signal?.removeEventListener('abort', leave);
      this.#waiting.delete(admit);
      this.#take();
      resolve();
    };
    this.#waiting.add(admit);
    signal?.addEventListener('abort', leave, { once: true });
    return promise;
  }

  #take(): void {
    this.#inFlight++;
    this.#peak = Math.max(this.#peak, this.#inFlight);
  }
}

function wholeNumber(option: string, value: number, min = 1): number {
  return wholeNumberOption('invalid_call_budget', option, value, min);
}
