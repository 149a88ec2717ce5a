import type { SoftmaxDecisions } from '../../../../src/engines/embedded/runner/head-runner.ts';

/** A decision whose distribution the graphs compute. */
export interface SoftmaxDecision {
  /** Index of the state that predicts its token. */
  state: number;
  token: number;
  temperature: number;
  legal: Int32Array | null;
}

export const softmaxDecisions = (decisions: readonly SoftmaxDecision[]): SoftmaxDecisions => ({
  states: Int32Array.from(decisions, ({ state }) => state),
  tokens: Int32Array.from(decisions, ({ token }) => token),
  temperatures: Float32Array.from(decisions, ({ temperature }) => temperature),
  legal: (index) => decisions[index]?.legal ?? null,
});
