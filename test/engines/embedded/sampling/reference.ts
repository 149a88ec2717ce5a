import type { SamplingParameters } from '../../../../src/learning/index.ts';

/** A small vocabulary: all bytes of each token, one character each; special tokens have none. */
export const bytes = ['a', 'b', 'c', 'ab', 'bc', 'ca', ' ', 'abc', 'cab', '', ''];
export const endToken = 9;
export const callToken = 10;
export const text = { bytes, endToken, unconstrained: Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9) };

/** The state in which a token is sampled. */
export interface Situation {
  prompt: number[];
  reply: number[];
  /** What a constraint allows; null without one. */
  allowed: number[] | null;
}

/** A logits processor as a plain function: the new logit of a token from the old one. */
export type PlainProcessor = (logit: number, token: number, situation: Situation) => number;

/**
 * The documented pipeline, step by step as it is written there, a token at a time and with no care for speed. Returns
 * the log-probability of each token that can come.
 */
export function referenceLogprobs(
  raw: readonly number[],
  sampling: SamplingParameters,
  situation: Situation,
  processors: readonly PlainProcessor[],
): Map<number, number> {
  const { reply, prompt } = situation;
  let logits = new Map(legalTokens(sampling, situation).map((token) => [token, raw[token] as number]));
  for (const processor of processors) {
    const processed = new Map(
      [...logits]
        .map(([token, logit]) => [token, processor(logit, token, situation)] as const)
        .filter(([, logit]) => logit !== Number.NEGATIVE_INFINITY),
    );
    if (processed.size > 0) logits = processed;
  }
  const adjusted = new Map<number, number>();
  for (const [token, logit] of logits) {
    let z = logit;
    for (const [biased, bias] of sampling.logitBias) if (biased === token) z += bias;
    if ([...prompt, ...reply].includes(token))
      z = z > 0 ? z / sampling.repetitionPenalty : z * sampling.repetitionPenalty;
    const times = reply.filter((one) => one === token).length;
    z -= sampling.frequencyPenalty * times;
    if (times > 0) z -= sampling.presencePenalty;
    adjusted.set(token, z / (sampling.temperature === 0 ? 1 : sampling.temperature));
  }
  return normalised(cut(adjusted, sampling));
}

function legalTokens(sampling: SamplingParameters, { reply, allowed }: Situation): number[] {
  let legal = allowed ?? [...text.unconstrained];
  const rule = (passes: (token: number) => boolean) => {
    if (legal.some(passes)) legal = legal.filter(passes);
  };
  const { allowedTokens, minTokens, ignoreEnd, bannedTexts } = sampling;
  if (allowedTokens) rule((token) => allowedTokens.includes(token));
  if (minTokens && reply.length < minTokens.count) rule((token) => !minTokens.barred.includes(token));
  if (ignoreEnd && allowed) rule((token) => token !== endToken);
  const written = reply.map((token) => bytes[token]).join('');
  rule((token) => {
    const longer = written + bytes[token];
    return !bannedTexts.some((banned) => {
      for (let at = 0; at + banned.length <= longer.length; at++)
        if (at + banned.length > written.length && longer.slice(at, at + banned.length) === banned)
          return true;
      return false;
    });
  });
  return legal;
}

function cut(scaled: Map<number, number>, { topK, topP, minP }: SamplingParameters): Map<number, number> {
  let left = [...scaled].sort(([a, x], [b, y]) => y - x || a - b);
  if (topK > 0) left = left.slice(0, topK);
  const probabilities = normalised(new Map(left));
  let before = 0;
  left = left.filter(([token], index) => {
    const kept = topP === 1 || index === 0 || before < topP;
    before += Math.exp(probabilities.get(token) as number);
    return kept;
  });
  const highest = (left[0] as [number, number])[1];
  return new Map(left.filter(([, value]) => Math.exp(value - highest) >= minP));
}

function normalised(scaled: Map<number, number>): Map<number, number> {
  const highest = Math.max(...scaled.values());
  let sum = 0;
  for (const value of scaled.values()) sum += Math.exp(value - highest);
  return new Map([...scaled].map(([token, value]) => [token, value - highest - Math.log(sum)]));
}
