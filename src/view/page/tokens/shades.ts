/** What the shade of a token tells. */
export const shadings = ['probability', 'entropy', 'advantage', 'ratio'] as const;
export type Shading = (typeof shadings)[number];

/** A step of the scale of probabilities: tokens with at least this probability, and less than the step before it. */
interface Shade {
  /** 0 is unmarked; the class of the token is `shade-N`. */
  level: number;
  label: string;
}

/** Lower bounds of the probability, from unmarked to the strongest shade. */
const bounds = [0.9, 0.5, 0.1, 0.01, 0.001, 0];

/** The scale of probabilities, for the legend. */
export const probabilityShades: readonly Shade[] = bounds.map((bound, level) => ({
  level,
  label: bound === 0 ? '< 0.1 %' : `≥ ${bound * 100} %`,
}));

/** The more surprising a token, the stronger its shade. Without a log-probability there is none. */
export function probabilityLevel(logprob: number | null): number {
  if (logprob === null) return 0;
  const probability = Math.exp(logprob);
  return bounds.findIndex((bound) => probability >= bound);
}

/** A shade of a signed number: its sign by hue, its size by strength, -3 to 3, on a scale that ends at `largest`. */
export function signedLevel(value: number | null, largest: number): number {
  if (value === null || value === 0 || largest <= 0) return 0;
  const strength = Math.min(3, Math.max(1, Math.ceil((Math.abs(value) / largest) * 3)));
  return value < 0 ? -strength : strength;
}

/** Bounds of the size of a log-ratio, from the weakest shade to the strongest. */
const ratioBounds = [0.01, 0.1, 0.5];

/** A shade of the importance ratio, -3 to 3: above 1 the trainer found the token more likely than the sampler did. */
export function ratioLevel(logRatio: number | null): number {
  if (logRatio === null) return 0;
  const strength = ratioBounds.filter((bound) => Math.abs(logRatio) >= bound).length;
  return logRatio < 0 ? -strength : strength;
}

/** Shades of entropy in nats: none below 0.1, the strongest from 3. */
export function entropyLevel(entropy: number | null): number {
  if (entropy === null) return 0;
  return [0.1, 0.5, 1, 2, 3].filter((bound) => entropy >= bound).length;
}
