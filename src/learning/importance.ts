import type { LossDecision } from './loss.ts';
import type { PolicyLossConfig } from './resolve-config.ts';

/** A log-ratio beyond this overflows float32, which an engine computes in. No policy gets there by training. */
const largestLogRatio = 80;

export interface ImportanceRatios {
  /** d of each decision. */
  logRatios: Float64Array;
  /** r of each decision. */
  ratios: Float64Array;
  /** dr_i/dl_i without the part in `shared`. */
  own: Float64Array;
  /** dr_i/dl_j for every j of the datum, i among them; null where a ratio depends on its own l alone. */
  shared: Float64Array | null;
}

/**
 * The importance ratios of a datum's n decisions with d = l - l0 and m = mean(d), by the level of the config:
 * `token` exp(d); `sequence` exp(m), as in GSPO (Zheng et al. 2025, arXiv:2507.18071); `average` (exp(d) + exp(m)) / 2;
 * `geometric_average` exp((d + m) / 2). Where l0 stands for a missing one it is stop(l): d is 0 and moves with l.
 */
export function importanceRatios(
  decisions: readonly LossDecision[],
  { importanceLevel: level, precalculateLogprobs }: PolicyLossConfig,
): ImportanceRatios {
  const count = decisions.length;
  const logRatios = new Float64Array(count);
  for (let index = 0; index < count; index++) {
    const { logprob, sampledLogprob } = decisions[index] as LossDecision;
    if (sampledLogprob === null || precalculateLogprobs) continue;
    logRatios[index] = Math.min(logprob - sampledLogprob, largestLogRatio);
  }
  if (level === 'token') {
    const ratios = logRatios.map(Math.exp);
    return { logRatios, ratios, own: ratios, shared: null };
  }
  const mean = logRatios.reduce((sum, value) => sum + value, 0) / count;
  const sequence = Math.exp(mean);
  switch (level) {
    case 'sequence': {
      const shared = logRatios.map(() => sequence / count);
      return { logRatios, ratios: logRatios.map(() => sequence), own: new Float64Array(count), shared };
    }
    case 'average': {
      const half = logRatios.map((value) => Math.exp(value) / 2);
      const shared = logRatios.map(() => sequence / (2 * count));
      return { logRatios, ratios: half.map((value) => value + sequence / 2), own: half, shared };
    }
    case 'geometric_average': {
      const ratios = logRatios.map((value) => Math.exp((value + mean) / 2));
      const own = ratios.map((value) => value / 2);
      return { logRatios, ratios, own, shared: ratios.map((value) => value / (2 * count)) };
    }
  }
}
