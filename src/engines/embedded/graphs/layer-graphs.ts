import {
  hasBias,
  kernelPart,
  type NormName,
  normsOf,
  normWidth,
  type Projection,
  projectionShape,
  projectionsOf,
} from '../checkpoint/tensors.ts';
import { type Dimensions, Graph, type Value } from '../onnx/graph.ts';
import type { Architecture, LayerKind } from '../weights/architecture.ts';
import type { AttentionTape } from './attention.ts';
import { type ConvolutionParts, convolutionInputs } from './convolution.ts';
import { type KeptPart, keptShapes } from './kept-shapes.ts';
import { type CommonTape, type ConvolutionTape, Layer } from './layer.ts';
import type { LayerParts, Linear, MatmulOptions } from './layer-parts.ts';
import { gainOf, Norm } from './normalization.ts';

/** The projections with a LoRA adapter; `scale` is alpha / rank. */
export interface LoraTargets {
  targets: readonly Projection[];
  scale: number;
}

export interface LayerGraphOptions {
  /** What is trained: adapters beside the layers' weights, or all weights. */
  trained: LoraTargets | 'all';
  /**
   * Whether to use operators of the runtime that do several things at once. They have no kernels on WebGPU, or wrong ones:
   * the second output of its norm.
   */
  isFused: boolean;
  /**
   * Whether queries, MLP and output are computed for selected positions only, which are `steps` of each row. Not in a layer
   * with a convolution.
   */
  selects: boolean;
  kind: LayerKind;
}

/**
 * The forward pass of any one layer. All weights are inputs, so that one graph serves every layer of a kind: matrices
 * [outputs, inputs] under their projection's name, `<projection>.bias`, norms, and the adapter's `<projection>.A`
 * [rank, inputs] and `<projection>.B` [outputs, rank]. Further inputs: `state` [tokens, width], `positions` [batch, time],
 * `cosines` and `sines` [time, headWidth / 2], `visible` [batch or 1, 1, steps, time], 0 where a position may attend and a
 * large negative number elsewhere, and `query_shape` and `key_shape`, [batch, positions, heads, headWidth] of the queries
 * and of the keys. Output: `next`. A layer with a convolution has `convolutionInputs` in place of all of these but
 * `state`.
 *
 * A graph that selects also has the inputs `rows` [batch * steps], the indices of the selected states,
 * `step_positions` [batch, steps], and for its backward pass `sources` [tokens], 1 + the index of the selection that a
 * state is, or 0. `next` has the selected states only. The last layer of a conversation in which one token in six is
 * trained saves most of its work that way.
 *
 * Sequences are padded on the right: no position attends to a later one, so padding changes nothing. Without `isFused`,
 * all nodes have kernels on WebGPU; the runtime still fuses transpositions and scales into the products on the CPU. The
 * shapes are inputs, because the arithmetic of shapes would run on the CPU, and sessions on WebGPU refuse nodes there.
 */
export function layerForwardGraph(architecture: Architecture, options: LayerGraphOptions): Uint8Array {
  const { graph, layer, picked } = new LayerGraph(architecture, options);
  graph.output('next', layer.next(layer.forward('state')), [picked, architecture.width]);
  return graph.finish();
}

/** `layerForwardGraph` with further outputs, which `layerTapeGraph` takes as inputs: see `keptShapes`. */
export function layerKeepingGraph(architecture: Architecture, options: LayerGraphOptions): Uint8Array {
  const { graph, layer, picked } = new LayerGraph(architecture, options);
  const tape = layer.forward('state');
  graph.output('next', layer.next(tape), [picked, architecture.width]);
  const parts: Partial<Record<KeptPart, Value>> = tape;
  for (const [part, shape] of keptShapes(architecture, options))
    graph.output(`tape.${part}`, parts[part] as Value, shape);
  return graph.finish();
}

/**
 * The backward pass of any one layer. It runs the layer forward again, so that only the inputs of the layers have to be
 * kept. Inputs: the inputs of the forward pass, and `gradient`, dLoss/dnext. Outputs: `state_gradient` [tokens, width], and
 * `<input>.gradient` for each trained input: `<projection>.A` and `<projection>.B`, or all weights.
 */
export function layerBackwardGraph(architecture: Architecture, options: LayerGraphOptions): Uint8Array {
  const { graph, layer, picked } = new LayerGraph(architecture, options, { keepsGradients: true });
  graph.input('gradient', 'float32', [picked, architecture.width]);
  const stateGradient = layer.backward('gradient', layer.forward('state'));
  graph.output('state_gradient', stateGradient, ['tokens', architecture.width]);
  return graph.finish();
}

/** The backward pass on what a forward pass has kept. Inputs: as `layerBackwardGraph`, and `keptShapes`. */
export function layerTapeGraph(architecture: Architecture, options: LayerGraphOptions): Uint8Array {
  const { graph, layer, picked } = new LayerGraph(architecture, options, { keepsGradients: true });
  graph.input('gradient', 'float32', [picked, architecture.width]);
  const kept = Object.fromEntries(
    Array.from(keptShapes(architecture, options), ([part, shape]) => [
      part,
      graph.input(`tape.${part}`, 'float32', shape),
    ]),
  ) as Omit<CommonTape, 'input'> &
    ((Omit<AttentionTape, 'attention'> & { attention?: Value }) | ConvolutionTape);
  const tape =
    'projected' in kept
      ? { ...kept, input: 'state' }
      : { ...kept, input: 'state', attention: kept.attention ?? layer.attention(kept.query, kept.key) };
  graph.output('state_gradient', layer.backward('gradient', tape), ['tokens', architecture.width]);
  return graph.finish();
}

const noAdapters: LoraTargets = { targets: [], scale: 1 };

class LayerGraph {
  readonly graph = new Graph();
  readonly layer: Layer;
  /** The dimension of the states that the layer gives. */
  readonly picked: 'picked' | 'tokens';
  readonly #architecture: Architecture;
  readonly #options: LayerGraphOptions;
  readonly #keepsGradients: boolean;

  constructor(architecture: Architecture, options: LayerGraphOptions, { keepsGradients = false } = {}) {
    this.#architecture = architecture;
    this.#options = options;
    this.#keepsGradients = keepsGradients;
    const { width, headWidth, positions, convolutions } = architecture;
    const { kind, selects } = options;
    this.picked = selects ? 'picked' : 'tokens';
    const { graph } = this;
    graph.input('state', 'float32', ['tokens', width]);
    let rotary: LayerParts['rotary'] = null;
    if (kind === 'attention') {
      graph.input('visible', 'float32', ['masks', 1, selects ? 'steps' : 'time', 'time']);
      if (positions !== 'learned') {
        graph.input('positions', 'int64', ['batch', 'time']);
        if (selects) graph.input('step_positions', 'int64', ['batch', 'steps']);
        for (const table of ['cosines', 'sines']) graph.input(table, 'float32', ['time', headWidth / 2]);
        const steps = selects ? 'step_positions' : 'positions';
        rotary = { time: 'positions', steps, cosines: 'cosines', sines: 'sines' };
      }
      graph.input('query_shape', 'int64', [4]);
      graph.input('key_shape', 'int64', [4]);
    }
    const linears = new Map(projectionsOf(architecture, kind).map((name) => [name, this.#linear(name)]));
    const norms = new Map(normsOf(architecture, kind).map((name) => [name, this.#norm(name)]));
    if (selects) graph.input('rows', 'int64', ['picked']);
    if (selects && keepsGradients) graph.input('sources', 'int64', ['tokens']);
    const parts: LayerParts = {
      graph,
      architecture,
      linear: (name) => linears.get(name) as Linear,
      norm: (name) => norms.get(name) as Norm,
      matmul: (left, right, given) => this.#matmul(left, right, given),
      headShape: (which) => (which === 'steps' ? 'query_shape' : 'key_shape'),
      mask: 'visible',
      rotary,
      ...(selects
        ? { select: (states) => this.#select(states), spread: (gradient) => this.#spread(gradient) }
        : {}),
    };
    if (kind === 'convolution') parts.convolution = this.#convolution(convolutions?.taps ?? 0);
    this.layer = new Layer(parts);
  }

  #select(states: Value): Value {
    return this.graph.op('Gather', [states, 'rows'], { axis: 0 });
  }

  /** It gathers instead of scattering: ONNX Runtime's scatter loses additions to the same index on several threads. */
  #spread(gradient: Value): Value {
    const { graph } = this;
    const zero = graph.op('ConstantOfShape', [graph.integers(1, this.#architecture.width)]);
    const extended = graph.op('Concat', [zero, gradient], { axis: 0 });
    return graph.op('Gather', [extended, 'sources'], { axis: 0 });
  }

  #convolution(taps: number): ConvolutionParts {
    const { width } = this.#architecture;
    const keepGradient = this.#keepsWeights
      ? (gradient: Value) => this.#outputGradient(kernelPart, gradient, [width, 1, taps])
      : null;
    const inputs = convolutionInputs(this.graph, { width, taps });
    return { graph: this.graph, width, taps, ...inputs, keepGradient };
  }

  #norm(name: NormName): Norm {
    const architecture = this.#architecture;
    const width = normWidth(architecture, name);
    const gain = gainOf(this.graph, architecture, this.graph.input(name, 'float32', [width]));
    const { normEpsilon: epsilon } = architecture;
    // The gain is the weight, or the weight and 1.
    const keepGradient = this.#keepsWeights
      ? (gradient: Value) => this.#outputGradient(name, gradient, [width])
      : null;
    const { isFused } = this.#options;
    return new Norm(this.graph, { gain, epsilon, keepGradient, isFused });
  }

  get #keepsWeights(): boolean {
    return this.#keepsGradients && this.#options.trained === 'all';
  }

  #outputGradient(input: string, gradient: Value, dimensions: Dimensions): void {
    this.graph.output(`${input}.gradient`, gradient, dimensions);
  }

  /** y = x W^T + bias + scale * (x A^T) B^T. */
  #linear(name: Projection): Linear {
    const { graph } = this;
    const { trained } = this.#options;
    const { targets, scale: strength } = trained === 'all' ? noAdapters : trained;
    const [outputs, inputs] = projectionShape(this.#architecture, name);
    const weight = graph.input(name, 'float32', [outputs, inputs]);
    const isBiased = hasBias(this.#architecture, name);
    const bias = isBiased ? [graph.input(`${name}.bias`, 'float32', [outputs])] : [];
    const isAdapted = targets.includes(name);
    const [a, b] = [`${name}.A`, `${name}.B`];
    if (isAdapted) {
      graph.input(a, 'float32', ['rank', inputs]);
      graph.input(b, 'float32', [outputs, 'rank']);
    }
    const transposed = { transB: 1 };
    return {
      forward: (input) => {
        const output = graph.op('Gemm', [input, weight, ...bias], transposed);
        if (!isAdapted) return output;
        const low = graph.op('Gemm', [input, a], transposed);
        return graph.op('Gemm', [low, b, output], { ...transposed, alpha: { float: strength } });
      },
      backward: (gradient, input, { scale = 1, added } = {}) => {
        const sum = added === undefined ? [] : [added];
        if (this.#keepsWeights) {
          const ofWeight = graph.op('Gemm', [gradient, input], { transA: 1 });
          this.#outputGradient(name, ofWeight, [outputs, inputs]);
          const ofBias = () => graph.op('ReduceSum', [gradient, graph.integers(0)], { keepdims: 0 });
          if (isBiased) this.#outputGradient(`${name}.bias`, ofBias(), [outputs]);
        }
        const fromWeight = graph.op('Gemm', [gradient, weight, ...sum], { alpha: { float: scale } });
        if (!isAdapted) return fromWeight;
        const lowGradient = graph.op('Gemm', [gradient, b], { alpha: { float: strength } });
        if (this.#keepsGradients) {
          const low = graph.op('Gemm', [input, a], transposed);
          const ofA = graph.op('Gemm', [lowGradient, input], { transA: 1 });
          const ofB = graph.op('Gemm', [gradient, low], { transA: 1, alpha: { float: strength } });
          this.#outputGradient(a, ofA, ['rank', inputs]);
          this.#outputGradient(b, ofB, [outputs, 'rank']);
        }
        return graph.op('Gemm', [lowGradient, a, fromWeight], { alpha: { float: scale } });
      },
    };
  }

  #matmul(
    left: Value,
    right: Value,
    { transposeLeft = false, transposeRight = false, scale = 1 }: MatmulOptions = {},
  ): Value {
    const { graph } = this;
    if (this.#options.isFused)
      return graph.contribOp('FusedMatMul', [left, right], {
        transA: transposeLeft ? 1 : 0,
        transB: transposeRight ? 1 : 0,
        alpha: { float: scale },
      });
    const transpose = (value: Value) => graph.op('Transpose', [value], { perm: [0, 1, 3, 2] });
    const operands = [transposeLeft ? transpose(left) : left, transposeRight ? transpose(right) : right];
    const product = graph.op('MatMul', operands);
    return scale === 1 ? product : graph.op('Mul', [product, graph.scalar(scale)]);
  }
}
