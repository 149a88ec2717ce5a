import { defaultDevice, grad, init, nn, numpy as np } from '@jax-js/jax';
import { type Architecture, tensorShapes } from '../../../../src/engines/embedded/weights/architecture.ts';

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
  const forward = (p: Parameters): Array => {
    const weight = (name: string) => (p[name] as Array).ref;
    let x = np.matmul(oneHot(ids.flat(), vocabularySize), weight('token_embedding'));
    const positions = ids.flatMap((row) => row.map((_, at) => at));
    x = x.add(np.matmul(oneHot(positions, architecture.contextLength), weight('position_embedding')));
    for (let distance = 1; distance <= previousTokens; distance++)
      x = x.add(
        np.matmul(oneHot(shifted(distance), vocabularySize), weight(`previous_embedding.${distance}`)),
      );
    for (let layer = 0; layer < layers; layer++) {
      const name = (part: string) => weight(`layers.${layer}.${part}`);
      const h = norm(x.ref, name('attention_norm'));
      const packed = np.matmul(h, name('query_key_value')).reshape([batch, time, 3, heads, span]);
      const part = (index: number) => {
        const pick = new Float32Array(3);
        pick[index] = 1;
        return np.einsum('btchd,c->bhtd', packed.ref, np.array(pick));
      };
      const scores = np.einsum('bhqd,bhkd->bhqk', part(0), part(1)).mul(1 / Math.sqrt(span));
      const causal = new Float32Array(time * time);
      for (let at = 0; at < time; at++) causal.fill(-1e9, at * time + at + 1, (at + 1) * time);
      const attention = nn.softmax(scores.add(np.array(causal).reshape([time, time])), -1);
      const mixed = np.einsum('bhqk,bhkd->bqhd', attention, part(2)).reshape([batch * time, width]);
      packed.dispose();
      x = x.add(np.matmul(mixed, name('attention_output')));
      const hidden = nn.relu(np.matmul(norm(x.ref, name('mlp_norm')), name('mlp_up')));
      x = x.add(np.matmul(np.square(hidden), name('mlp_down')));
    }
    const picked = np.matmul(oneHot(rows, batch * time), x);
    return np.matmul(norm(picked, weight('final_norm')), weight('head'));
  };
  const parameters = (): Parameters =>
    Object.fromEntries(
      tensorShapes(architecture).map(({ name, dimensions, offset, size }) => [
        name,
        np.array(flat.slice(offset, offset + size)).reshape(dimensions),
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
