import type { NormName } from '../checkpoint/tensors.ts';
import type { Value } from '../onnx/graph.ts';
import { attentionScaleOf } from '../weights/architecture.ts';
import type { LayerParts } from './layer-parts.ts';

/**
 * Values of a forward pass that the backward pass of attention needs. Queries and `attention` are [batch, keyValueHeads,
 * steps of all heads that share a key, headWidth].
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

/** Attention with shared keys and values, between its projections' inputs and the mixed heads, forward and backward. */
export class Attention {
  readonly #parts: LayerParts;
  /** Factor of the scores. */
  readonly #scale: number;

  constructor(parts: LayerParts) {
    this.#parts = parts;
    this.#scale = attentionScaleOf(parts.architecture);
  }

  /** From normalised states to the mixed heads [positions, heads * headWidth]. */
  forward(normalized: Value): AttentionTape & { mixed: Value } {
    const { graph, architecture, linear } = this.#parts;
    const queries = this.#parts.select?.(normalized) ?? normalized;
    const query = this.#split(linear('q_proj').forward(queries), 'steps');
    const key = this.#split(linear('k_proj').forward(normalized), 'time');
    const value = this.#split(linear('v_proj').forward(normalized), 'time');
    const placedQuery = this.#place('q_norm', query, 'steps');
    const placedKey = this.#place('k_norm', key, 'time');
    const grouped = this.#group(placedQuery.output);
    const attention = this.probabilities(grouped, placedKey.output);
    const ungrouped = this.#ungroup(graph.op('MatMul', [attention, value]));
    const mixed = this.#join(ungrouped, [0, 2, 1, 3], architecture.heads);
    const tape: AttentionTape & { mixed: Value } = {
      query: grouped,
      key: placedKey.output,
      value,
      attention,
      mixed,
    };
    if (placedQuery.inverse !== undefined && placedKey.inverse !== undefined)
      Object.assign(tape, {
        rawQuery: query,
        queryInverse: placedQuery.inverse,
        rawKey: key,
        keyInverse: placedKey.inverse,
      });
    return tape;
  }

  /** The attention of queries to keys, both as in the tape. */
  probabilities(query: Value, key: Value): Value {
    const { graph, matmul, mask } = this.#parts;
    const products = matmul(query, key, { transposeRight: true, scale: this.#scale });
    const scores = graph.op('Add', [this.#ungroup(products), mask]);
    return this.#group(graph.op('Softmax', [scores], { axis: -1 }));
  }

  /** Turns the gradient of the mixed heads into the gradient of the normalised states. */
  backward(gradient: Value, normalized: Value, tape: AttentionTape & { mixed: Value }): Value {
    const { linear, select, spread } = this.#parts;
    const { query, key, value } = this.#projectionGradients(gradient, tape);
    const fromQuery = linear('q_proj').backward(query, select?.(normalized) ?? normalized);
    const added = spread?.(fromQuery) ?? fromQuery;
    const fromKey = linear('k_proj').backward(key, normalized, { added });
    return linear('v_proj').backward(value, normalized, { added: fromKey });
  }

  /**
   * From the gradient dO of the mixed heads O [positions, width] to the gradients of the projections. With attention P
   * and values V, dP = dO V^T and the gradient of the scores is P * (dP - sum(P * dP)). The sum over the positions equals
   * the sum of O * dO over a head's width, which is shorter (Dao et al. 2022, arXiv:2205.14135, appendix B.4).
   */
  #projectionGradients(
    mixedGradient: Value,
    tape: AttentionTape & { mixed: Value },
  ): { query: Value; key: Value; value: Value } {
    const { graph, matmul, architecture, headShape } = this.#parts;
    const { heads, keyValueHeads } = architecture;
    const shape = headShape('steps');
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
  #split(states: Value, positions: 'time' | 'steps'): Value {
    const { graph, headShape } = this.#parts;
    const apart = graph.op('Reshape', [states, headShape(positions)]);
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
}
