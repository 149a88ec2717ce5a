import type { Projection } from '../checkpoint/tensors.ts';
import { type Dimensions, Graph, type Value } from '../onnx/graph.ts';
import { type Architecture, tensorShapes } from '../weights/architecture.ts';
import type { AttentionTape, CommonTape, LayerParts, LayerTape, Linear, MatmulOptions } from './layer.ts';
import { Norm } from './normalization.ts';

/**
 * The shared inputs of the training graphs of models whose parameters are all trained: each tensor of the parameters, and a batch of padded
 * sequences (`ids` and `previous.k` [batch, time]) with the positions whose outputs are requested: `positions`
 * [batch, picks] in time, and the same as flat indices, `rows` [batch * picks].
 *
 * The last layer computes its keys and values everywhere, but its queries and MLP, and the head, only at `rows`. In
 * conversations where one token in six is a decision that saves a third of the work.
 */
export abstract class TrainingGraph {
  readonly graph = new Graph();
  protected readonly architecture: Architecture;
  readonly #parameters: ReadonlySet<string>;
  protected readonly batchAndTime: Value;

  constructor(architecture: Architecture) {
    this.architecture = architecture;
    const graph = this.graph;
    const shapes = tensorShapes(architecture);
    for (const { name, dimensions } of shapes) graph.input(name, 'float32', dimensions);
    this.#parameters = new Set(shapes.map(({ name }) => name));
    graph.input('ids', 'int64', ['batch', 'time']);
    for (let distance = 1; distance <= architecture.previousTokens; distance++)
      graph.input(`previous.${distance}`, 'int64', ['batch', 'time']);
    graph.input('positions', 'int64', ['batch', 'picks']);
    graph.input('rows', 'int64', ['rows']);
    this.batchAndTime = graph.op('Shape', ['ids']);
  }

  /** Whether a layer computes only the requested positions. */
  protected isLast(layer: number): boolean {
    return layer === this.architecture.layers - 1;
  }

  /**
   * What a layer is built from. `mask` is not used by the backward pass. `gradients`, for the backward pass only, gets
   * the gradients of the layer's projections and norms.
   */
  protected layerParts(layer: number, mask: Value, gradients: Map<string, Value> | null = null): LayerParts {
    const { graph, architecture, batchAndTime } = this;
    const name = (part: string) => this.parameter(`layers.${layer}.${part}`);
    const packed = name('query_key_value');
    const split = graph.ops('Split', [packed], { axis: 1, num_outputs: 3 }, 3) as [Value, Value, Value];
    const weights: Partial<Record<Projection, Value>> = {
      q_proj: split[0],
      k_proj: split[1],
      v_proj: split[2],
      o_proj: name('attention_output'),
      up_proj: name('mlp_up'),
      down_proj: name('mlp_down'),
    };
    const isLast = this.isLast(layer);
    const batchAndSteps = isLast ? graph.op('Shape', ['positions']) : batchAndTime;
    return {
      graph,
      architecture,
      linear: (projection) =>
        this.#linear(weights[projection] as Value, (gradient) => gradients?.set(projection, gradient)),
      norm: (part) =>
        new Norm(graph, {
          gain: name(part === 'input_layernorm' ? 'attention_norm' : 'mlp_norm'),
          epsilon: architecture.normEpsilon,
          keepGradient: (gradient) => gradients?.set(part, gradient),
          isFused: true,
        }),
      matmul: (left, right, options) => this.matmul(left, right, options),
      headShape: (positions, heads) => {
        const lengths = positions === 'steps' ? batchAndSteps : batchAndTime;
        return graph.op('Concat', [lengths, graph.integers(heads, architecture.headWidth)], { axis: 0 });
      },
      ...(isLast
        ? { select: (states) => this.#select(states), spread: (states) => this.#spread(states) }
        : {}),
      mask,
      rotary: null,
    };
  }

  /** Selects the rows `rows` of the states of all positions [tokens, width]. */
  #select(states: Value): Value {
    return this.graph.op('Gather', [states, 'rows'], { axis: 0 });
  }

  /**
   * The backward pass of `select`: zeros at positions that were not selected. It gathers instead of scattering, because
   * ONNX Runtime's scatter loses additions to the same index on several threads.
   */
  #spread(gradient: Value): Value {
    const { graph } = this;
    const zero = graph.op('ConstantOfShape', [graph.integers(1, this.architecture.width)]);
    const extended = graph.op('Concat', [zero, gradient], { axis: 0 });
    return graph.op('Gather', [extended, 'sources'], { axis: 0 });
  }

  /** A matrix [inputs, outputs] that is trained. */
  #linear(weight: Value, keepGradient: (gradient: Value) => void): Linear {
    return {
      forward: (input) => this.graph.op('MatMul', [input, weight]),
      backward: (gradient, input, { scale = 1, added } = {}) => {
        keepGradient(this.matmul(input, gradient, { transposeLeft: true }));
        if (added === undefined) return this.matmul(gradient, weight, { transposeRight: true, scale });
        return this.graph.op('Gemm', [gradient, weight, added], { transB: 1, alpha: { float: scale } });
      },
    };
  }

  /** A tensor of the parameters. */
  protected parameter(name: string): Value {
    if (!this.#parameters.has(name)) throw new Error(`the architecture has no tensor ${name}`);
    return name;
  }

  protected matmul(
    left: Value,
    right: Value,
    { transposeLeft = false, transposeRight = false, scale = 1 }: MatmulOptions = {},
  ): Value {
    return this.graph.contribOp('FusedMatMul', [left, right], {
      transA: transposeLeft ? 1 : 0,
      transB: transposeRight ? 1 : 0,
      alpha: { float: scale },
    });
  }
}

/** The values that a squared ReLU and learned positions leave for the backward pass. */
type TapePart = Exclude<
  keyof CommonTape | keyof AttentionTape,
  'gate' | 'queryInverse' | 'keyInverse' | `raw${string}`
>;

/** The values of the forward pass that the backward pass needs: outputs of the one graph and inputs of the other. */
export function tapeShapes(architecture: Architecture): Map<Value, Dimensions> {
  const { width, heads, headWidth, mlpWidth, layers } = architecture;
  const shapes = new Map<Value, Dimensions>([
    ['tape.last', ['rows', width]],
    ['tape.finalInverse', ['rows', 1]],
  ]);
  for (let layer = 0; layer < layers; layer++) {
    const [rows, steps] = layer === layers - 1 ? ['rows', 'picks'] : ['tokens', 'time'];
    const byHead = ['batch', heads, 'time', headWidth];
    const parts: Record<TapePart, Dimensions> = {
      input: ['tokens', width],
      attentionInverse: ['tokens', 1],
      query: ['batch', heads, steps, headWidth],
      key: byHead,
      value: byHead,
      attention: ['batch', heads, steps, 'time'],
      mixed: [rows, width],
      middle: [rows, width],
      mlpInverse: [rows, 1],
      hidden: [rows, mlpWidth],
    };
    for (const [part, shape] of Object.entries(parts)) shapes.set(`tape.${layer}.${part}`, shape);
  }
  return shapes;
}

/** The inputs of the backward graph that are a layer's tape. */
export function tapeOf(layer: number): LayerTape {
  const name = (part: TapePart) => `tape.${layer}.${part}`;
  return {
    input: name('input'),
    attentionInverse: name('attentionInverse'),
    query: name('query'),
    key: name('key'),
    value: name('value'),
    attention: name('attention'),
    mixed: name('mixed'),
    middle: name('middle'),
    mlpInverse: name('mlpInverse'),
    hidden: name('hidden'),
  };
}
