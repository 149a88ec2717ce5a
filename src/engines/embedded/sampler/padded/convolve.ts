/** What a chunk's convolution reads and writes. */
interface ConvolutionParts {
  /** B, C and x of each token of a run, one after another: [tokens, 3 * width]. */
  packed: Float32Array;
  /** [width, taps]. */
  kernels: Float32Array;
  /** B * x of each position of the sequence, [positions, width]. Only the chunk's positions are written. */
  inputs: Float32Array;
  width: number;
  /** C * y of each token, [tokens, width], to be written. */
  convolved: Float32Array;
}

/**
 * The convolution y of a layer for the positions `start` to `end` of a sequence, whose first token is at `offset` of the
 * run: see `Convolutions`. A position's numbers do not depend on what else runs.
 */
export function convolve(
  { packed, kernels, inputs, width, convolved }: ConvolutionParts,
  { start, end, offset }: { start: number; end: number; offset: number },
): void {
  const taps = kernels.length / width;
  for (let position = start; position < end; position++) {
    const token = offset + position - start;
    const [own, from] = [position * width, token * 3 * width];
    const first = Math.max(0, taps - 1 - position);
    for (let channel = 0; channel < width; channel++) {
      inputs[own + channel] =
        (packed[from + channel] as number) * (packed[from + 2 * width + channel] as number);
      let sum = 0;
      for (let tap = first; tap < taps; tap++)
        sum +=
          (kernels[channel * taps + tap] as number) *
          (inputs[(position - (taps - 1) + tap) * width + channel] as number);
      convolved[token * width + channel] = (packed[from + width + channel] as number) * sum;
    }
  }
}
