// Not in the declarations that are published, so that projects without vitest compile too.
/// <reference types="vitest" />
import type { CompareOptions } from './compare-pair.ts';
import { type EvaluationSource, gate, type HoldOptions } from './gate.ts';

/**
 * Matchers of vitest that compare an evaluation with a baseline, scenario by scenario:
 *
 *     expect.extend(evaluationMatchers);
 *     await expect(evaluation).toBeat('baseline.jsonl', { measure: 'success', confidence: 0.95 });
 *     await expect(evaluation).toHold('baseline.jsonl', { measure: 'success', margin: 0.02 });
 *
 * Both sides are what `evaluate` returns or the path of a stored evaluation. Evaluations that cannot be compared are
 * errors, with `.not` too.
 */
export const evaluationMatchers = {
  toBeat: (received: EvaluationSource, baseline: EvaluationSource, options?: CompareOptions) =>
    asMatcher(gate(received, baseline, options)),
  toHold: (received: EvaluationSource, baseline: EvaluationSource, options: HoldOptions) =>
    asMatcher(gate(received, baseline, { ...options, margin: options?.margin })),
};

async function asMatcher(result: ReturnType<typeof gate>): Promise<{ pass: boolean; message: () => string }> {
  const { pass, report } = await result;
  return { pass, message: () => report };
}

declare module 'vitest' {
  interface Matchers<R extends void | Promise<void> = void | Promise<void>, T = unknown> {
    /**
     * Passes if the mean is higher than the baseline's, and the paired sign-flip test gives at most 1 - `confidence`.
     * At a confidence of 0.95, which is the default, it needs at least 6 scenarios.
     */
    toBeat(baseline: EvaluationSource, options?: CompareOptions): Promise<void>;
    /**
     * Passes if the mean is not worse than the baseline's by more than `margin`: the whole interval of the difference
     * at `confidence` (default 0.95) is at or above minus the margin.
     */
    toHold(baseline: EvaluationSource, options: HoldOptions): Promise<void>;
  }
}
