import { type NormName, type Projection, sublayerNorms } from '../checkpoint/tensors.ts';
import type { Graph, Value } from '../onnx/graph.ts';
import { type Architecture, attentionScaleOf, isGated } from '../weights/architecture.ts';
import { Convolution, type ConvolutionParts } from './convolution.ts';
import { applyGate } from './gate.ts';
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
   * The shape [batch, positions, heads, headWidth], int64 [4]: of all positions (`time`), or of those for which a
   * sequence's queries and MLP are computed (`steps`).
   */
  headShape(positions: 'time' | 'steps', heads: number): Value;
  /** Selects these positions' rows of the rows of all positions. Without it, these are all positions. */
  select?: (states: Value) => Value;
  /** The backward pass of `select`: zeros at positions that were not selected. */
  spread?: (gradient: Value) => Value;
  /** Added to the scores: 0 where a position may attend, a large negative number elsewhere. */
  mask: Value;
  /**
   * The positions of all tokens (`time`) and of those of `steps`, [batch, time] and [batch, steps], and the `cosines` and
   * `sines` of each position [time, headWidth / 2].
   */
  rotary: { time: Value; steps: Value; cosines: Value; sines: Value } | null;
  /** Of a layer that has a convolution in place of attention. Such a layer selects no positions. */
  convolution?: ConvolutionParts;
}

/** The values of a layer's forward pass that its backward pass needs. */
type LayerTape = CommonTape & (AttentionTape | ConvolutionTape);

/** What all layers have. */
export interface CommonTape {
  input: Value;
  attentionInverse: Value;
  /** What attention or convolution give, before their last projection. */
  mixed: Value;
  middle: Value;
  mlpInverse: Value;
  /** relu(up(x)) of a squared ReLU, up(x) of a gated MLP. */
  hidden: Value;
  /** gate(x), of a gated MLP. */
  gate?: Value;
  /** The outputs of attention and MLP before their norms. */
  rawAttention?: Value;
  rawAttentionInverse?: Value;
  rawMlp?: Value;
  rawMlpInverse?: Value;
}

/**
 * What attention has. Queries are [batch, keyValueHeads, steps of all heads that share a key, headWidth], and `attention`
 * likewise.
 */
export interface AttentionTape {
  query: Value;
  key: Value;
  value: Value;
  attention: Value;
  /** The queries and keys before their norms. */
  rawQuery?: Value;
  queryInverse?: Value;
  rawKey?: Value;
  keyInverse?: Value;
}

/** What a convolution has. */
export interface ConvolutionTape {
  /** Its parts B, C and x side by side, [tokens, 3 * width]. */
  projected: Value;
}

type MixTape = Pick<CommonTape, 'mixed'> & (AttentionTape | ConvolutionTape);

/** A transformer layer, forward and backward: of the tiny models and of checkpoints, on [positions, width]. */
export class Layer {
  readonly #parts: LayerParts;
  /** Factor of the attention scores. */
  readonly #scale: number;
  readonly #convolution: Convolution | null;

  constructor(parts: LayerParts) {
    this.#parts = parts;
    this.#convolution = parts.convolution ? new Convolution(parts.convolution) : null;
    this.#scale = attentionScaleOf(parts.architecture);
  }

  /** The forward pass up to what the backward pass needs; `next` completes it. */
  forward(input: Value): LayerTape {
    const { graph, architecture, linear, norm } = this.#parts;
    const norms = sublayerNorms(architecture);
    const attentionNorm = norm(norms.attention.before).forward(input);
    const mix = this.#mix(attentionNorm.output);
    const added = this.#normed(norms.attention.after, linear(this.#outputName).forward(mix.mixed));
    const middle = graph.op('Add', [this.#select(input), added.output]);
    const mlpNorm = norm(norms.mlp.before).forward(middle);
    const up = linear('up_proj').forward(mlpNorm.output);
    const hasGate = isGated(architecture);
    const tape: LayerTape = {
      input,
      attentionInverse: attentionNorm.inverse,
      ...mix,
      middle,
      mlpInverse: mlpNorm.inverse,
      hidden: hasGate ? up : graph.op('Relu', [up]),
    };
    if (hasGate) tape.gate = linear('gate_proj').forward(mlpNorm.output);
    if (added.inverse !== undefined) {
      const rawMlp = this.#mlpOutput(tape);
      const { inverse } = this.#normed(norms.mlp.after, rawMlp);
      Object.assign(tape, {
        rawAttention: added.input,
        rawAttentionInverse: added.inverse,
        rawMlp,
        rawMlpInverse: inverse,
      });
    }
    return tape;
  }

  /** What mixes the positions, attention or a convolution, up to its last projection. */
  #mix(normalized: Value): MixTape {
    const { graph, architecture, linear } = this.#parts;
    if (this.#convolution) {
      const projected = linear('in_proj').forward(normalized);
      return { projected, mixed: this.#convolution.forward(projected) };
    }
    const { heads, keyValueHeads } = architecture;
    const queries = this.#select(normalized);
    const query = this.#split(linear('q_proj').forward(queries), heads, 'steps');
    const key = this.#split(linear('k_proj').forward(normalized), keyValueHeads, 'time');
    const value = this.#split(linear('v_proj').forward(normalized), keyValueHeads, 'time');
    const placedQuery = this.#place('q_norm', query, 'steps');
    const placedKey = this.#place('k_norm', key, 'time');
    const grouped = this.#group(placedQuery.output);
    const attention = this.attention(grouped, placedKey.output);
    const mixed = this.#join(this.#ungroup(graph.op('MatMul', [attention, value])), [0, 2, 1, 3], heads);
    const tape: MixTape = { query: grouped, key: placedKey.output, value, attention, mixed };
    if (placedQuery.inverse !== undefined && placedKey.inverse !== undefined)
      Object.assign(tape, {
        rawQuery: query,
        queryInverse: placedQuery.inverse,
        rawKey: key,
        keyInverse: placedKey.inverse,
      });
    return tape;
  }

  get #outputName(): Projection {
    return this.#convolution ? 'out_proj' : 'o_proj';
  }

  /** The layer's output. */
  next(tape: LayerTape): Value {
    const { graph, architecture } = this.#parts;
    const { after } = sublayerNorms(architecture).mlp;
    const { output } = this.#normed(after, tape.rawMlp ?? this.#mlpOutput(tape));
    return graph.op('Add', [tape.middle, output]);
  }

  #mlpOutput({ hidden, gate }: CommonTape): Value {
    const { graph, architecture, linear } = this.#parts;
    const factor = gate === undefined ? hidden : applyGate(graph, architecture, gate).output;
    return linear('down_proj').forward(graph.op('Mul', [factor, hidden]));
  }

  /** The norm of what attention or MLP gives, if it has one. */
  #normed(name: NormName | null, input: Value): { input: Value; output: Value; inverse?: Value } {
    return name === null ? { input, output: input } : { input, ...this.#parts.norm(name).forward(input) };
  }

  /** From the gradient of what is added to the states to that of what attention or MLP gives. */
  #normedBackward(name: NormName | null, gradient: Value, raw?: Value, inverse?: Value): Value {
    if (name === null || raw === undefined || inverse === undefined) return gradient;
    return this.#parts.norm(name).backward(gradient, raw, inverse);
  }

  /** The attention of queries to keys, both as in the tape. */
  attention(query: Value, key: Value): Value {
    const { graph, matmul, mask } = this.#parts;
    const products = matmul(query, key, { transposeRight: true, scale: this.#scale });
    const scores = graph.op('Add', [this.#ungroup(products), mask]);
    return this.#group(graph.op('Softmax', [scores], { axis: -1 }));
  }

  /** From dLoss/dnext to dLoss/dinput. */
  backward(gradient: Value, tape: LayerTape): Value {
    const { graph, architecture, linear, norm } = this.#parts;
    const norms = sublayerNorms(architecture);
    const mlpGradient = this.#normedBackward(norms.mlp.after, gradient, tape.rawMlp, tape.rawMlpInverse);
    const mlp = this.#mlpBackward(mlpGradient, tape);
    const middleGradient = graph.op('Add', [gradient, mlp]);
    const outputGradient = this.#normedBackward(
      norms.attention.after,
      middleGradient,
      tape.rawAttention,
      tape.rawAttentionInverse,
    );
    const mixedGradient = linear(this.#outputName).backward(outputGradient, tape.mixed);
    const attentionNorm = norm(norms.attention.before);
    const normalized = attentionNorm.outputOf(tape.input, tape.attentionInverse);
    const fromMix = this.#mixBackward(mixedGradient, normalized, tape);
    const attention = attentionNorm.backward(fromMix, tape.input, tape.attentionInverse);
    return graph.op('Add', [this.#spread(middleGradient), attention]);
  }

  /** From the gradient of what is mixed to that of the normalised states. */
  #mixBackward(gradient: Value, normalized: Value, tape: LayerTape): Value {
    const { linear } = this.#parts;
    if ('projected' in tape) {
      const projected = (this.#convolution as Convolution).backward(gradient, tape.projected);
      return linear('in_proj').backward(projected, normalized);
    }
    const { query, key, value } = this.#attentionBackward(gradient, tape);
    const fromQuery = linear('q_proj').backward(query, this.#select(normalized));
    const fromKey = linear('k_proj').backward(key, normalized, { added: this.#spread(fromQuery) });
    return linear('v_proj').backward(value, normalized, { added: fromKey });
  }

  #mlpBackward(gradient: Value, { middle, mlpInverse, hidden, gate }: CommonTape): Value {
    const { graph, architecture, linear, norm } = this.#parts;
    const mlpNorm = norm(sublayerNorms(architecture).mlp.before);
    const [down, up] = [linear('down_proj'), linear('up_proj')];
    let normalizedGradient: Value;
    if (gate === undefined) {
      const squaredGradient = down.backward(gradient, graph.op('Mul', [hidden, hidden]), { scale: 2 });
      const hiddenGradient = graph.op('Mul', [squaredGradient, hidden]);
      normalizedGradient = up.backward(hiddenGradient, mlpNorm.outputOf(middle, mlpInverse));
    } else {
      const { output, slope } = applyGate(graph, architecture, gate);
      const inner = down.backward(gradient, graph.op('Mul', [output, hidden]));
      const normalized = mlpNorm.outputOf(middle, mlpInverse);
      const added = up.backward(graph.op('Mul', [inner, output]), normalized);
      const gateGradient = graph.op('Mul', [graph.op('Mul', [inner, hidden]), slope()]);
      normalizedGradient = linear('gate_proj').backward(gateGradient, normalized, { added });
    }
    return mlpNorm.backward(normalizedGradient, middle, mlpInverse);
  }

  /**
   * From the gradient dO of the mixed heads O [positions, width] to the gradients of the projections. With attention P
   * and values V, dP = dO V^T and the gradient of the scores is P * (dP - sum(P * dP)); the sum over the positions is
   * that of O * dO over a head's width, which is shorter (Dao et al. 2022, arXiv:2205.14135, appendix B.4).
   */
  #attentionBackward(
    mixedGradient: Value,
    tape: CommonTape & AttentionTape,
  ): { query: Value; key: Value; value: Value } {
    const { graph, matmul, architecture, headShape } = this.#parts;
    const { heads, keyValueHeads } = architecture;
    const shape = headShape('steps', heads);
    const apart = (states: Value) => graph.op('Reshape', [states, shape]);
    const byHead = this.#group(graph.op('Transpose', [apart(mixedGradient)], { perm: [0, 2, 1, 3] }));
    const product = apart(graph.op('Mul', [tape.mixed, mixedGradient]));
    const sum = graph.op('ReduceSum', [product, graph.integers(3)], { keepdims: 1 });
    const total = this.#group(graph.op('Transpose', [sum], { perm: [0, 2, 1, 3] }));
    const attentionGradient = matmul(byHead, tape.value, { transposeRight: true });
    const scoreGradient = graph.op('Mul', [graph.op('Sub', [attentionGradient, total]), tape.attention]);
    const query = this.#ungroup(matmul(scoreGradient, tape.key, { scale: this.#scale }));
    // Keys and values come out transposed, because transposing the smaller operand of a product takes less time.
    const key = matmul(tape.query, scoreGradient, { transposeLeft: true, scale: this.#scale });
    const value = matmul(byHead, tape.attention, { transposeLeft: true });
    return {
      query: this.#join(
        this.#placeBackward('q_norm', query, 'steps', tape.rawQuery, tape.queryInverse),
        [0, 2, 1, 3],
        heads,
      ),
      key: this.#keyBackward(key, tape),
      value: this.#join(value, [0, 3, 1, 2], keyValueHeads),
    };
  }

  #keyBackward(transposed: Value, { rawKey, keyInverse }: AttentionTape): Value {
    const { graph, architecture, rotary } = this.#parts;
    const { keyValueHeads } = architecture;
    if (!rotary && rawKey === undefined) return this.#join(transposed, [0, 3, 1, 2], keyValueHeads);
    const key = graph.op('Transpose', [transposed], { perm: [0, 1, 3, 2] });
    return this.#join(
      this.#placeBackward('k_norm', key, 'time', rawKey, keyInverse),
      [0, 2, 1, 3],
      keyValueHeads,
    );
  }

  /** Norms and rotates queries or keys [batch, heads, time, headWidth], as the architecture says. */
  #place(name: NormName, states: Value, positions: 'time' | 'steps'): { output: Value; inverse?: Value } {
    const { norm, architecture, rotary } = this.#parts;
    const normed = architecture.queryKeyNorm ? norm(name).forward(states) : { output: states };
    return rotary ? { ...normed, output: this.#rotate(normed.output, positions, rotary.sines) } : normed;
  }

  #placeBackward(
    name: NormName,
    gradient: Value,
    positions: 'time' | 'steps',
    raw?: Value,
    inverse?: Value,
  ): Value {
    const { graph, norm, rotary } = this.#parts;
    const turned = rotary ? this.#rotate(gradient, positions, graph.op('Neg', [rotary.sines])) : gradient;
    return raw === undefined || inverse === undefined ? turned : norm(name).backward(turned, raw, inverse, 3);
  }

  #rotate(states: Value, positions: 'time' | 'steps', sines: Value): Value {
    const { graph, rotary } = this.#parts;
    if (!rotary) return states;
    const inputs = [states, rotary[positions], rotary.cosines, sines];
    return graph.contribOp('RotaryEmbedding', inputs, { interleaved: 0 });
  }

  /** [positions, heads * headWidth] as [batch, heads, time, headWidth]. */
  #split(states: Value, heads: number, positions: 'time' | 'steps'): Value {
    const { graph, headShape } = this.#parts;
    const apart = graph.op('Reshape', [states, headShape(positions, heads)]);
    return graph.op('Transpose', [apart], { perm: [0, 2, 1, 3] });
  }

  /** [positions, heads * headWidth] from an order of axes that `perm` makes [batch, time, heads, headWidth]. */
  #join(states: Value, perm: readonly number[], heads: number): Value {
    const { graph, architecture } = this.#parts;
    const shape = graph.integers(-1, heads * architecture.headWidth);
    return graph.op('Reshape', [graph.op('Transpose', [states], { perm }), shape]);
  }

  /** [batch, heads, steps, n] as [batch, keyValueHeads, heads of a key * steps, n]. */
  #group(states: Value): Value {
    const { graph, architecture } = this.#parts;
    const { heads, keyValueHeads } = architecture;
    if (heads === keyValueHeads) return states;
    return graph.op('Reshape', [states, graph.integers(0, keyValueHeads, -1, 0)]);
  }

  /** The inverse of `group`. */
  #ungroup(states: Value): Value {
    const { graph, architecture } = this.#parts;
    const { heads, keyValueHeads } = architecture;
    if (heads === keyValueHeads) return states;
    return graph.op('Reshape', [states, graph.integers(0, heads, -1, 0)]);
  }

  #select(states: Value): Value {
    return this.#parts.select?.(states) ?? states;
  }

  #spread(gradient: Value): Value {
    return this.#parts.spread?.(gradient) ?? gradient;
  }
}
