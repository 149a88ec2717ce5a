export interface AdaptiveLimitOptions {
  min: number;
  max: number;
  start: number;
  targetLatencyMs: number | undefined;
}

/** What a decrease multiplies the limit by. */
const decreaseFactor = 0.75;

/** Without a target, this many times the smallest latency seen lately is taken for a queue on the other side. */
const latencyTolerance = 3;

/** Answers whose mean is one measure of latency; as many as are in flight where those are more. */
const leastAnswers = 16;

/** Measures among which the smallest is looked for: replies that grow as a policy learns are no queue. */
const rememberedMeasures = 32;

/**
 * How many calls may be in flight, learnt from what comes of them: additive increase, multiplicative decrease (Chiu
 * and Jain, 1989), as in TCP. Each answer raises the limit by 1 until the first decrease (so it doubles in a round
 * trip), then by 1 in a round trip; only while the limit is used up, since calls below it say nothing about it. A 429
 * or 503, or a latency beyond the bound, lowers it by a quarter, at most once in a round trip: what a call says that
 * began before the last decrease is about the limit before it.
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

  /** Whole calls. */
  get value(): number {
    return Math.floor(this.#limit);
  }

  /** What a call takes along, to be given back with what came of it. */
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
    const smallest = Math.min(...this.#measures);
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

  /** How many answers a round trip gives. */
  #roundTrip(): number {
    return Math.max(leastAnswers, this.value);
  }
}
