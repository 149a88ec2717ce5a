import type { PlainDecisions } from '../../../../src/engines/embedded/runner/head-runner.ts';

/** A decision whose distribution the graphs compute. */
export interface PlainDecision {
  /** Index of the state that predicts its token. */
  state: number;
  token: number;
  temperature: number;
  legal: Int32Array | null;
}

export const plainDecisions = (decisions: readonly PlainDecision[]): PlainDecisions => ({
  states: Int32Array.from(decisions, ({ state }) => state),
  tokens: Int32Array.from(decisions, ({ token }) => token),
  temperatures: Float32Array.from(decisions, ({ temperature }) => temperature),
  legal: (index) => decisions[index]?.legal ?? null,
});
