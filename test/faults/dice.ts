import { deriveSeed, randomSource } from '../../src/index.ts';

/** Draws one of the kinds by weight, the same for the same seed. */
export function draw<Kind extends string>(seed: number, weights: Readonly<Record<Kind, number>>): Kind {
  const kinds = Object.keys(weights) as Kind[];
  const total = kinds.reduce((sum, kind) => sum + weights[kind], 0);
  let at = randomSource(deriveSeed(seed, 0x50a4))() * total;
  for (const kind of kinds) {
    at -= weights[kind];
    if (at < 0) return kind;
  }
  throw new RangeError('there is nothing to draw from');
}
