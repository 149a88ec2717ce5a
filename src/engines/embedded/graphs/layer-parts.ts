import type { NormName, Projection } from '../checkpoint/tensors.ts';
import type { Graph, Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { ConvolutionParts } from './convolution.ts';
import type { Norm } from './normalization.ts';

/** A matrix, and what is added to it, by which states [rows, inputs] are multiplied. */
export interface Linear {
  forward(input: Value): Value;
  /**
   * From dLoss/doutput to scale * dLoss/dinput + added; `scale` is 1 unless given. The gradients of trained parameters
   * are kept by the linear.
   */
  backward(gradient: Value, input: Value, options?: { scale?: number; added?: Value }): Value;
}

export interface MatmulOptions {
  transposeLeft?: boolean;
  transposeRight?: boolean;
  scale?: number;
}

/** What a layer is built from: its weights, and the batch of sequences that it runs. */
export interface LayerParts {
  graph: Graph;
  architecture: Architecture;
  linear(projection: Projection): Linear;
  norm(name: NormName): Norm;
  /** The product of the last two axes of two values with four axes. */
  matmul(left: Value, right: Value, options?: MatmulOptions): Value;
  /**
   * The shape [batch, positions, heads, headWidth], int64 [4]: of the keys of all positions (`time`), or of the queries of
   * those for which a sequence's queries and MLP are computed (`steps`).
   */
  headShape(positions: 'time' | 'steps'): Value;
  /** Selects these positions' rows of the rows of all positions. Without it, these are all positions. */
  select?: (states: Value) => Value;
  /** The backward pass of `select`: zeros at positions that were not selected. */
  spread?: (gradient: Value) => Value;
  /** Added to the scores: 0 where a position may attend, a large negative number elsewhere. */
  mask: Value;
  /**
   * The positions of all tokens (`time`, [batch, time]) and of the selected ones (`steps`, [batch, steps]), and the
   * `cosines` and `sines` of each position [time, headWidth / 2].
   */
  rotary: { time: Value; steps: Value; cosines: Value; sines: Value } | null;
  /** Only in a layer that has a convolution in place of attention. Such a layer selects no positions. */
  convolution?: ConvolutionParts;
}
