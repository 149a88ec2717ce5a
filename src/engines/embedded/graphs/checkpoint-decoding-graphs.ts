import { type Projection, projectionShape } from '../checkpoint/tensors.ts';
import type { Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';
import { DecodingGraph } from './decoding-graph.ts';
import type { LoraTargets } from './lora-graphs.ts';
import { outputChoices } from './token-choices.ts';

/** What precedes the names of the weights of the layer whose attention comes next. */
export const nextLayer = 'next.';

/**
 * The graphs of a checkpoint with a LoRA adapter. All weights are inputs, named as in `loraForwardGraph`; those of the
 * projections before an attention and their norms begin with `next.`. Further ones: `embedding` [vocabulary, width],
 * `head`, of the same shape, `norm` [width], `inverse_temperature` [outputs, 1], those of `outputChoices`, and the tables `cosines` and `sines` [context, headWidth / 2].
 *
 * The weights, [outputs, inputs], are the left operands, of states in columns. ONNX Runtime packs the right operand of a
 * product into other memory in each run, but reads the left one in place. For few tokens that takes half of the time, as
 * little as with weights that are packed beforehand, which would be in memory twice. The states are transposed apart,
 * because only a plain product has a kernel of its own for a single column.
 */
class CheckpointGraph extends DecodingGraph {
  readonly #lora: LoraTargets;

  constructor(architecture: Architecture, lora: LoraTargets) {
    super(architecture);
    this.#lora = lora;
  }

  protected embed(): Value {
    const { vocabularySize, width } = this.architecture;
    const table = this.graph.input('embedding', 'float32', [vocabularySize, width]);
    return this.graph.op('Gather', [table, 'ids'], { axis: 0 });
  }

  protected gain(_layer: number | null, norm: 'attention' | 'mlp' | 'final'): Value {
    const attentionNorm = `${nextLayer}input_layernorm`;
    const name = norm === 'attention' ? attentionNorm : norm === 'mlp' ? 'post_attention_layernorm' : 'norm';
    return this.graph.input(name, 'float32', [this.architecture.width]);
  }

  protected project(layer: number, normed: Value): Value {
    const { graph } = this;
    const { heads, keyValueHeads, headWidth } = this.architecture;
    // The first graph has this input already.
    if (layer > 0) graph.input('positions', 'int64', ['tokens']);
    for (const table of ['cosines', 'sines']) graph.input(table, 'float32', ['context', headWidth / 2]);
    const columns = this.#transpose(normed);
    const linear = (name: Projection) => this.#transpose(this.#multiply(name, columns, nextLayer));
    return graph.op(
      'Concat',
      [
        this.#rotate(this.#biased('q_proj', linear('q_proj')), 'q_norm', heads),
        this.#rotate(this.#biased('k_proj', linear('k_proj')), 'k_norm', keyValueHeads),
        this.#biased('v_proj', linear('v_proj')),
      ],
      { axis: 1 },
    );
  }

  /** One node for all heads: the tokens and heads that share keys and values are rows of the same product. */
  protected mix(): Value {
    const { graph } = this;
    const { heads, keyValueHeads, headWidth } = this.architecture;
    const sharers = heads / keyValueHeads;
    graph.input('query', 'float32', ['batch', 'queries', keyValueHeads * headWidth]);
    for (const name of ['key', 'value'])
      graph.input(name, 'float32', ['batch', keyValueHeads, 'width', headWidth]);
    graph.input('mask', 'float32', ['batch', 1, 'queries', 'width']);
    // The query is divided by the root of the head width already.
    const mixed = graph.contribOp('MultiHeadAttention', ['query', 'key', 'value', '', '', 'mask'], {
      num_heads: keyValueHeads,
      scale: { float: 1 },
    });
    const apart = graph.op('Reshape', [mixed, graph.integers(-1, sharers, keyValueHeads, headWidth)]);
    const picked = graph.op('Gather', [apart, graph.input('rows', 'int64', ['tokens'])], { axis: 0 });
    const ordered = graph.op('Transpose', [picked], { perm: [0, 2, 1, 3] });
    return graph.op('Reshape', [ordered, graph.integers(-1, heads * headWidth)]);
  }

  protected attend(_layer: number, mixed: Value): Value {
    return this.#transpose(this.#multiply('o_proj', this.#transpose(mixed)));
  }

  protected expand(_layer: number, normed: Value): Value {
    const { graph } = this;
    const columns = this.#transpose(normed);
    // With the factor 1, this operator is the SiLU: x * sigmoid(x).
    const gate = graph.contribOp('QuickGelu', [this.#multiply('gate_proj', columns)], {
      alpha: { float: 1 },
    });
    const hidden = graph.op('Mul', [gate, this.#multiply('up_proj', columns)]);
    return this.#transpose(this.#multiply('down_proj', hidden));
  }

  protected finish(normed: Value): void {
    const { graph } = this;
    const { vocabularySize, width } = this.architecture;
    const head = graph.input('head', 'float32', [vocabularySize, width]);
    graph.input('inverse_temperature', 'float32', ['outputs', 1]);
    const scaled = graph.op('Mul', [normed, 'inverse_temperature']);
    const logits = this.#transpose(graph.op('MatMul', [head, this.#transpose(scaled)]));
    outputChoices(graph, logits, vocabularySize);
  }

  /** W x + scale * B (A x), [outputs, tokens], for states x [inputs, tokens]. */
  #multiply(name: Projection, states: Value, prefix = ''): Value {
    const { graph } = this;
    const [outputs, inputs] = projectionShape(this.architecture, name);
    const weight = graph.input(`${prefix}${name}`, 'float32', [outputs, inputs]);
    const product = graph.op('MatMul', [weight, states]);
    const { targets, scale } = this.#lora;
    if (!targets.includes(name)) return product;
    const a = graph.input(`${prefix}${name}.A`, 'float32', ['rank', inputs]);
    const b = graph.input(`${prefix}${name}.B`, 'float32', [outputs, 'rank']);
    return graph.op('Gemm', [b, graph.op('MatMul', [a, states]), product], { alpha: { float: scale } });
  }

  #transpose(states: Value): Value {
    return this.graph.op('Transpose', [states], { perm: [1, 0] });
  }

  #biased(name: Projection, states: Value): Value {
    if (!this.architecture.attentionBias) return states;
    const [outputs] = projectionShape(this.architecture, name);
    return this.graph.op('Add', [states, this.graph.input(`${nextLayer}${name}.bias`, 'float32', [outputs])]);
  }

  /** Norms each head, if the architecture does, and rotates it by its token's position. */
  #rotate(states: Value, norm: 'q_norm' | 'k_norm', heads: number): Value {
    const { graph } = this;
    const { headWidth, queryKeyNorm, normEpsilon } = this.architecture;
    const width = heads * headWidth;
    let normed = states;
    if (queryKeyNorm) {
      const gain = graph.input(`${nextLayer}${norm}`, 'float32', [headWidth]);
      const apart = graph.op('Reshape', [states, graph.integers(-1, headWidth)]);
      normed = graph.op('SimplifiedLayerNormalization', [apart, gain], {
        axis: -1,
        epsilon: { float: normEpsilon },
      });
    }
    const rows = graph.op('Reshape', [normed, graph.integers(-1, 1, width)]);
    const positions = graph.op('Unsqueeze', ['positions', graph.integers(1)]);
    const rotated = graph.contribOp('RotaryEmbedding', [rows, positions, 'cosines', 'sines'], {
      interleaved: 0,
    });
    return graph.op('Reshape', [rotated, graph.integers(-1, width)]);
  }
}

/**
 * The graph up to the first attention, the one from any layer's attention to the next (null if there is only one layer),
 * and the one from the last layer's attention to the logits.
 */
export function checkpointDecodingGraphs(
  architecture: Architecture,
  lora: LoraTargets,
): { first: Uint8Array; middle: Uint8Array | null; last: Uint8Array } {
  const { layers } = architecture;
  return {
    first: new CheckpointGraph(architecture, lora).begin(),
    middle: layers > 1 ? new CheckpointGraph(architecture, lora).proceed(0) : null,
    last: new CheckpointGraph(architecture, lora).proceed(layers - 1),
  };
}
