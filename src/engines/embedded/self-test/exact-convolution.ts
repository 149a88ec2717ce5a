import { kernelPart, layerTensorName } from '../checkpoint/tensors.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { Parts } from './exact-attention.ts';
import { backward, both, forward, multiply, type Rows, type Values } from './exact-numbers.ts';

/** The gated short convolution of a layer, up to what its last projection multiplies: see `Convolutions`. */
export function runConvolution(
  architecture: Architecture,
  input: Rows,
  layer: number,
  { linear, weight }: Parts,
): { mixed: Rows; backward: (gradient: Rows) => Rows } {
  const { width } = architecture;
  const taps = architecture.convolutions?.taps ?? 0;
  const projection = linear(layerTensorName(architecture, layer, 'in_proj'));
  const kernels = weight(`${layerTensorName(architecture, layer, kernelPart)}.weight`);
  const projected = forward(projection, input);
  const [b, c, x] = [0, 1, 2].map((part) =>
    projected.map((row) => row.subarray(part * width, (part + 1) * width)),
  ) as [Rows, Rows, Rows];
  const products = both(b, x, multiply);
  /** Calls back for each pair of a position and an earlier one that it sees, with the kernels' tap. */
  const eachPair = (pair: (at: number, seen: number, tap: number) => void) => {
    for (const at of input.keys())
      for (let tap = 0; tap < taps; tap++)
        if (at - (taps - 1) + tap >= 0) pair(at, at - (taps - 1) + tap, tap);
  };
  const add = (target: Values, added: Values, tap: number) => {
    for (const [channel, value] of added.entries())
      target[channel] = (target[channel] as number) + (kernels[channel * taps + tap] as number) * value;
  };
  const zeros = () => input.map(() => new Float64Array(width));
  const y = zeros();
  eachPair((at, seen, tap) => add(y[at] as Values, products[seen] as Values, tap));
  return {
    mixed: both(c, y, multiply),
    backward(gradient) {
      const outer = both(gradient, c, multiply);
      const productGradient = zeros();
      eachPair((at, seen, tap) => add(productGradient[seen] as Values, outer[at] as Values, tap));
      const parts = [
        both(productGradient, x, multiply),
        both(gradient, y, multiply),
        both(productGradient, b, multiply),
      ];
      const projectedGradient = input.map((_, at) =>
        Float64Array.from(parts.flatMap((rows) => [...(rows[at] as Values)])),
      );
      return backward(projection, projectedGradient, input);
    },
  };
}
