import { defaultDevice, grad, init, nn, numpy as np } from '@jax-js/jax';
import { trainedShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import type { Architecture } from '../../../../src/engines/embedded/weights/architecture.ts';

type Array = ReturnType<typeof np.array>;
type Parameters = Record<string, Array>;

/**
 * The same model written again for automatic differentiation, with none of the engine's code but the list of
 * tensors. Returns d sum(logits * slope) / d parameters by tensor, and the logits, of one batch.
 */
export async function differentiate(
  architecture: Architecture,
  flat: Float32Array,
  ids: number[][],
  rows: number[],
  slope: Float32Array,
): Promise<{ logits: Float32Array; gradients: Map<string, Float32Array> }> {
  await init('wasm');
  defaultDevice('wasm');
  const { vocabularySize, width, heads, layers, previousTokens } = architecture;
  const batch = ids.length;
  const time = ids[0]?.length ?? 0;
  const span = architecture.headWidth;
  const oneHot = (values: number[], size: number) => {
    const data = new Float32Array(values.length * size);
    values.forEach((value, row) => {
      if (value >= 0) data[row * size + value] = 1;
    });
    return np.array(data).reshape([values.length, size]);
  };
  const shifted = (distance: number) =>
    ids.flatMap((row) => row.map((_, at) => (at >= distance ? (row[at - distance] as number) : 0)));
  const norm = (x: Array, gain: Array) => {
    const inverse = np.sqrt(np.mean(np.square(x.ref), -1, { keepdims: true }).add(1e-5));
    return x.div(inverse).mul(gain);
  };
  /** By a matrix [outputs, inputs]. */
  const product = (x: Array, matrix: Array) => np.matmul(x, np.transpose(matrix));
  const forward = (p: Parameters): Array => {
    const weight = (name: string) => (p[name] as Array).ref;
    let x = np.matmul(oneHot(ids.flat(), vocabularySize), weight('model.embed_tokens.weight'));
    const positions = ids.flatMap((row) => row.map((_, at) => at));
    x = x.add(
      np.matmul(oneHot(positions, architecture.contextLength), weight('model.embed_positions.weight')),
    );
    for (let distance = 1; distance <= previousTokens; distance++)
      x = x.add(
        np.matmul(
          oneHot(shifted(distance), vocabularySize),
          weight(`model.embed_previous.${distance}.weight`),
        ),
      );
    for (let layer = 0; layer < layers; layer++) {
      const name = (part: string) => weight(`model.layers.${layer}.${part}.weight`);
      const h = norm(x.ref, name('input_layernorm'));
      const part = (letter: string) =>
        np.einsum(
          'bthd->bhtd',
          product(h.ref, name(`self_attn.${letter}_proj`)).reshape([batch, time, heads, span]),
        );
      const scores = np.einsum('bhqd,bhkd->bhqk', part('q'), part('k')).mul(1 / Math.sqrt(span));
      const causal = new Float32Array(time * time);
      for (let at = 0; at < time; at++) causal.fill(-1e9, at * time + at + 1, (at + 1) * time);
      const attention = nn.softmax(scores.add(np.array(causal).reshape([time, time])), -1);
      const mixed = np.einsum('bhqk,bhkd->bqhd', attention, part('v')).reshape([batch * time, width]);
      h.dispose();
      x = x.add(product(mixed, name('self_attn.o_proj')));
      const hidden = nn.relu(product(norm(x.ref, name('post_attention_layernorm')), name('mlp.up_proj')));
      x = x.add(product(np.square(hidden), name('mlp.down_proj')));
    }
    const picked = np.matmul(oneHot(rows, batch * time), x);
    return product(norm(picked, weight('model.norm.weight')), weight('lm_head.weight'));
  };
  const parameters = (): Parameters =>
    Object.fromEntries(
      trainedShapes(architecture, 'all').map(({ name, dimensions, offset, size }) => [
        name,
        np.array(flat.slice(offset, offset + size)).reshape([...dimensions]),
      ]),
    );
  const logits = (await forward(parameters()).data()) as Float32Array;
  const loss = (p: Parameters) =>
    np.sum(forward(p).mul(np.array(Float32Array.from(slope)).reshape([rows.length, vocabularySize])));
  const result = grad(loss)(parameters()) as Parameters;
  const gradients = new Map<string, Float32Array>();
  for (const [name, value] of Object.entries(result))
    gradients.set(name, (await value.data()) as Float32Array);
  return { logits, gradients };
}
