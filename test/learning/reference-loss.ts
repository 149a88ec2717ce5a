/**
 * The losses written from the formulas of the contract alone, as an objective of l with every stopped gradient
 * frozen at a point, so that central differences of it give the gradient to expect. Nothing is shared with src.
 */
export interface ReferenceConfig {
  ppo: boolean;
  e: number;
  eHigh: number;
  mask: boolean;
  c: number | null;
  t: number;
}

const clip = (x: number, low: number, high: number) => (x < low ? low : x > high ? high : x);

export function referenceLoss(
  l: number,
  stopped: number,
  sampled: number | null,
  advantage: number,
  { ppo, e, eHigh, mask, c, t }: ReferenceConfig,
): number {
  const ratioAt = (point: number) => {
    let r = Math.exp(point - (sampled ?? stopped));
    if (c !== null) r = Math.min(r, c);
    if (mask) r = 1 - e < r && r < 1 + eHigh ? r : 0;
    return r;
  };
  const a = advantage - t * (stopped - (sampled ?? stopped));
  if (ppo) {
    const r = ratioAt(l);
    return -Math.min(r * a, clip(r, 1 - e, 1 + eHigh) * a);
  }
  return -clip(ratioAt(stopped), 1 - e, 1 + eHigh) * a * l;
}

export function referenceGradient(
  l: number,
  sampled: number | null,
  advantage: number,
  config: ReferenceConfig,
): number {
  const h = 1e-6;
  const at = (point: number) => referenceLoss(point, l, sampled, advantage, config);
  return (at(l + h) - at(l - h)) / (2 * h);
}
