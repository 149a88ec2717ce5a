import type { Datum, Span } from '../learning/index.ts';
import type { TrainedTokens } from './engine.ts';

/** What a step reports. */
export interface StepResult {
  metrics: Record<string, number>;
  /** Undefined in supervised training. */
  tokens: TrainedTokens | undefined;
}

/** Collects what a step finds of the sampled tokens of its batch, in whatever order it finds them. */
export class TokenResults {
  readonly #starts = new Map<Span<unknown>, number>();
  readonly #tokens: TrainedTokens;

  constructor(datums: readonly Datum<unknown>[]) {
    let count = 0;
    for (const span of datums.flatMap(({ spans }) => spans)) {
      this.#starts.set(span, count);
      count += span.length;
    }
    this.#tokens = {
      logprobs: new Float32Array(count).fill(Number.NaN),
      clipped: new Uint8Array(count),
    };
  }

  /** @param position Index in the sequence of the token before it. */
  set(
    { span, position }: { span: Span<unknown>; position: number },
    logprob: number,
    clipped: boolean,
  ): void {
    const start = this.#starts.get(span);
    if (start === undefined) return;
    const at = start + position + 1 - span.start;
    this.#tokens.logprobs[at] = logprob;
    this.#tokens.clipped[at] = clipped ? 1 : 0;
  }

  all(): TrainedTokens {
    return this.#tokens;
  }
}
