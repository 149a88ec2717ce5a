import { smallestOf } from '../util/extremes.ts';

interface AdaptiveLimitOptions {
  min: number;
  max: number;
  start: number;
  targetLatencyMs: number | undefined;
}

/** A decrease multiplies the limit by this factor. */
const decreaseFactor = 0.75;

/** Without a target, a latency above this multiple of the smallest recent latency is taken as a sign of queueing. */
const latencyTolerance = 3;

/** One latency measure is the mean of this many answers, or of as many as the limit if that is larger. */
const minAnswers = 16;

/**
 * The smallest latency is taken from this many recent measures. Older ones are dropped, because replies grow longer as a
 * policy learns, which is not queueing.
 */
const rememberedMeasures = 32;

/**
 * A limit on the calls in flight that adapts to their outcomes: additive increase, multiplicative decrease (Chiu and
 * Jain, 1989), as in TCP. Until the first decrease each answer raises the limit by 1, which doubles it per round trip;
 * after that it rises by 1 per round trip. It rises only while all slots are in use, because fewer calls do not test
 * the limit. A 429, a 503 or a high latency lowers it by a quarter, at most once per round trip: outcomes of calls that
 * began before the last decrease are ignored, because they ran under the old limit.
 */
export class AdaptiveLimit {
  readonly #options: AdaptiveLimitOptions;
  readonly #measures: number[] = [];
  #limit: number;
  #epoch = 0;
  #sum = 0;
  #answers = 0;
  #window: number;
  readonly decreases = { rateLimited: 0, latency: 0 };

  constructor(options: AdaptiveLimitOptions) {
    this.#options = options;
    this.#limit = options.start;
    this.#window = this.#roundTrip();
  }

  /** The limit, rounded down. */
  get value(): number {
    return Math.floor(this.#limit);
  }

  /** Number of decreases so far. Each call keeps the epoch it began in and passes it back with its outcome. */
  get epoch(): number {
    return this.#epoch;
  }

  rateLimited(epoch: number): void {
    this.#lower(epoch, 'rateLimited');
  }

  answered(epoch: number, { durationMs, isFull }: { durationMs: number; isFull: boolean }): void {
    if (epoch !== this.#epoch) return;
    this.#sum += durationMs;
    this.#answers++;
    if (this.#answers >= this.#window) {
      const measure = this.#sum / this.#answers;
      this.#beginMeasure();
      if (this.#isSlow(measure)) this.#lower(epoch, 'latency');
    }
    if (!isFull || epoch !== this.#epoch) return;
    const step = this.#epoch === 0 ? 1 : 1 / this.#limit;
    this.#limit = Math.min(this.#options.max, this.#limit + step);
  }

  #isSlow(measure: number): boolean {
    const { targetLatencyMs } = this.#options;
    if (targetLatencyMs !== undefined) return measure > targetLatencyMs;
    const smallest = smallestOf(this.#measures);
    this.#measures.push(measure);
    if (this.#measures.length > rememberedMeasures) this.#measures.shift();
    return measure > latencyTolerance * smallest;
  }

  #lower(epoch: number, reason: 'rateLimited' | 'latency'): void {
    if (epoch !== this.#epoch) return;
    this.#epoch++;
    this.decreases[reason]++;
    this.#limit = Math.max(this.#options.min, this.#limit * decreaseFactor);
    this.#beginMeasure();
  }

  #beginMeasure(): void {
    this.#sum = this.#answers = 0;
    this.#window = this.#roundTrip();
  }

  /** Number of answers in one round trip. */
  #roundTrip(): number {
    return Math.max(minAnswers, this.value);
  }
}
