import { largestOf } from '../../../util/extremes.ts';
import { sumOf } from '../../../util/sums.ts';
import { layerTensorName } from '../checkpoint/tensors.ts';
import { type Architecture, attentionScaleOf, type RotaryPositions } from '../weights/architecture.ts';
import {
  addScaled,
  backward,
  dot,
  type ExactLinear,
  forward,
  normalize,
  normalizeBackward,
  type Rows,
  rotate,
  softmax,
  sum,
  type Values,
} from './exact-numbers.ts';

/** A model's parts by their names in its files. */
export interface Parts {
  linear(name: string): ExactLinear;
  /** What scales the values of a norm. */
  gain(name: string): Float32Array;
  /** A tensor as it is in the files. */
  weight(name: string): Float32Array;
  cancellations: Map<string, number>;
}

/** Causal attention of a layer, up to the mixed values of the heads. */
export function runAttention(
  architecture: Architecture,
  input: Rows,
  layer: number,
  parts: Parts,
): { mixed: Rows; backward: (gradient: Rows) => Rows; largestScore: number } {
  const { heads, keyValueHeads, headWidth, queryKeyNorm, normEpsilon } = architecture;
  const { linear, gain: gainOf, cancellations } = parts;
  const nameOf = (part: Parameters<typeof layerTensorName>[2]) => layerTensorName(architecture, layer, part);
  const local = architecture.local?.layers[layer] ? architecture.local : null;
  const positions = local?.positions ?? (architecture.positions as RotaryPositions);
  /** The first position that a token sees. */
  const first = (at: number) => Math.max(0, local ? at + 1 - local.window : 0);
  const scale = attentionScaleOf(architecture);
  const span = (row: Values, head: number) => row.subarray(head * headWidth, (head + 1) * headWidth);
  const place = (name: 'q' | 'k') => {
    const projection = linear(nameOf(`${name}_proj`));
    const gain = queryKeyNorm ? gainOf(nameOf(`${name}_norm`)) : null;
    const raw = forward(projection, input);
    const eachHead = (rows: Rows, change: (part: Values, at: number, head: number) => Values) =>
      rows.map((row, at) => {
        const changed = new Float64Array(row.length);
        for (let head = 0; head < row.length / headWidth; head++)
          changed.set(change(span(row, head), at, head), head * headWidth);
        return changed;
      });
    return {
      placed: eachHead(raw, (part, at) =>
        rotate(gain ? normalize(part, gain, normEpsilon) : part, positions, at),
      ),
      backward: (gradient: Rows) => {
        const rawGradient = eachHead(gradient, (part, at, head) => {
          const turned = rotate(part, positions, -at);
          return gain ? normalizeBackward(turned, span(raw[at] as Values, head), gain, normEpsilon) : turned;
        });
        return backward(projection, rawGradient, input);
      },
    };
  };
  const [query, key] = [place('q'), place('k')];
  const values = linear(nameOf('v_proj'));
  const value = forward(values, input);
  const sharers = heads / keyValueHeads;
  let largestScore = 0;
  /** Probabilities [position][head][earlier position]. */
  const attention = query.placed.map((row, at) =>
    Array.from({ length: heads }, (_, head) => {
      const own = Math.floor(head / sharers);
      const scores = Float64Array.from({ length: at + 1 }, (_, earlier) =>
        earlier < first(at)
          ? Number.NEGATIVE_INFINITY
          : scale * dot(span(row, head), span(key.placed[earlier] as Values, own)),
      );
      largestScore = largestOf(scores.filter(Number.isFinite).map(Math.abs), largestScore);
      return softmax(scores);
    }),
  );
  const mixed = attention.map((byHead) => {
    const row = new Float64Array(heads * headWidth);
    for (const [head, probabilities] of byHead.entries())
      for (const [earlier, p] of probabilities.entries())
        addScaled(span(row, head), span(value[earlier] as Values, Math.floor(head / sharers)), p);
    return row;
  });
  return {
    mixed,
    largestScore,
    backward(gradient) {
      const zeros = (rows: Rows) => rows.map((row) => new Float64Array(row.length));
      const [queryGradient, keyGradient, valueGradient] = [
        zeros(query.placed),
        zeros(key.placed),
        zeros(value),
      ];
      const terms = { query: 0, key: 0 };
      for (const [at, byHead] of attention.entries())
        for (const [head, probabilities] of byHead.entries()) {
          const own = Math.floor(head / sharers);
          const outer = span(gradient[at] as Values, head);
          const slopes = probabilities.map((_, earlier) => dot(outer, span(value[earlier] as Values, own)));
          const mean = dot(slopes, probabilities);
          for (const [earlier, p] of probabilities.entries()) {
            const slope = scale * p * ((slopes[earlier] as number) - mean);
            const [ownKey, ownQuery] = [
              span(key.placed[earlier] as Values, own),
              span(query.placed[at] as Values, head),
            ];
            addScaled(span(queryGradient[at] as Values, head), ownKey, slope);
            addScaled(span(keyGradient[earlier] as Values, own), ownQuery, slope);
            const apart = (scale * p * (Math.abs(slopes[earlier] as number) + Math.abs(mean))) ** 2;
            terms.query += apart * dot(ownKey, ownKey);
            terms.key += apart * dot(ownQuery, ownQuery);
            addScaled(span(valueGradient[earlier] as Values, own), outer, p);
          }
        }
      const size = (rows: Rows) => sumOf(rows, (row) => dot(row, row));
      cancellations.set(nameOf('q_proj'), Math.sqrt(terms.query / size(queryGradient)));
      cancellations.set(nameOf('k_proj'), Math.sqrt(terms.key / size(keyGradient)));
      return sum(
        sum(query.backward(queryGradient), key.backward(keyGradient)),
        backward(values, valueGradient, input),
      );
    },
  };
}
