import type { Adapter } from '../../../../src/engines/embedded/checkpoint/adapter.ts';
import type { Architecture } from '../../../../src/engines/embedded/weights/architecture.ts';

/**
 * The states before the head of one sequence, in float64 and with plain loops: none of the engine's code. `tensors` has
 * the weights and the adapter by their names in files.
 */
export function float64States(
  architecture: Architecture,
  tensors: ReadonlyMap<string, ArrayLike<number>>,
  lora: Pick<Adapter, 'rank' | 'alpha'>,
  tokens: readonly number[],
): number[][] {
  const { width, layers, heads, keyValueHeads, headWidth, queryKeyNorm, mlp, outputNorms } = architecture;
  const tensor = (name: string) => tensors.get(name) as ArrayLike<number>;
  const multiply = (name: string, x: readonly number[]): number[] => {
    const product = (matrix: ArrayLike<number>, vector: readonly number[]) =>
      Array.from({ length: matrix.length / vector.length }, (_, row) =>
        vector.reduce((sum, value, at) => sum + value * (matrix[row * vector.length + at] as number), 0),
      );
    const bias = tensors.get(`${name}.bias`);
    const output = product(tensor(`${name}.weight`), x).map((value, at) => value + (bias?.[at] ?? 0));
    const a = tensors.get(`${name}.lora_A.weight`);
    if (!a) return output;
    const low = product(a, x);
    const change = product(tensor(`${name}.lora_B.weight`), low);
    return output.map((value, at) => value + ((change[at] as number) * lora.alpha) / lora.rank);
  };
  const states = tokens.map((token, position) =>
    Array.from({ length: width }, (_, at) => {
      let sum = tensor('model.embed_tokens.weight')[token * width + at] as number;
      if (architecture.positions === 'learned')
        sum += tensor('model.embed_positions.weight')[position * width + at] as number;
      for (let distance = 1; distance <= architecture.previousTokens; distance++) {
        const table = tensor(`model.embed_previous.${distance}.weight`);
        sum += table[(tokens[position - distance] ?? 0) * width + at] as number;
      }
      return architecture.embeddingScale * sum;
    }),
  );
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `model.layers.${layer}`;
    const local = architecture.local?.layers[layer] ? architecture.local : null;
    const rotary = local?.positions ?? architecture.positions;
    const first = (position: number) => (local ? Math.max(0, position - local.window + 1) : 0);
    const added = (name: string, output: readonly number[]) =>
      (outputNorms ? normalize(architecture, output, tensor(`${prefix}.${name}.weight`)) : output).map(
        (value) => value * architecture.residualScale,
      );
    const normed = states.map((x) => normalize(architecture, x, tensor(`${prefix}.input_layernorm.weight`)));
    const project = (part: string, count: number) =>
      normed.map((x, position) => {
        const all = multiply(`${prefix}.self_attn.${part}_proj`, x);
        return Array.from({ length: count }, (_, head) => {
          const own = all.slice(head * headWidth, (head + 1) * headWidth);
          if (part === 'v') return own;
          const gain = `${prefix}.self_attn.${part}_norm.weight`;
          return rotate(rotary, queryKeyNorm ? normalize(architecture, own, tensor(gain)) : own, position);
        });
      });
    const attention = () => {
      const [queries, keys, values] = [
        project('q', heads),
        project('k', keyValueHeads),
        project('v', keyValueHeads),
      ];
      return states.map((_, position) => {
        const mixed = (queries[position] as number[][]).flatMap((query, head) => {
          const source = Math.floor((head * keyValueHeads) / heads);
          const scores = keys
            .slice(first(position), position + 1)
            .map(
              (key) =>
                dot(query, key[source] as number[]) *
                (architecture.attentionScale ?? 1 / Math.sqrt(headWidth)),
            );
          const probabilities = softmax(scores);
          return query.map((_, at) =>
            dot(
              probabilities,
              values.slice(first(position), position + 1).map((value) => value[source]?.[at] as number),
            ),
          );
        });
        return multiply(`${prefix}.self_attn.o_proj`, mixed);
      });
    };
    const convolution = (taps: number) => {
      const parts = normed.map((x) => multiply(`${prefix}.conv.in_proj`, x));
      const part = (position: number, index: number, at: number) =>
        parts[position]?.[index * width + at] ?? 0;
      return states.map((_, position) => {
        const mixed = Array.from({ length: width }, (_, at) => {
          let sum = 0;
          for (let back = 0; back < taps; back++)
            sum +=
              (tensor(`${prefix}.conv.conv.weight`)[at * taps + taps - 1 - back] as number) *
              part(position - back, 0, at) *
              part(position - back, 2, at);
          return part(position, 1, at) * sum;
        });
        return multiply(`${prefix}.conv.out_proj`, mixed);
      });
    };
    const { convolutions } = architecture;
    const mixes = convolutions?.layers[layer] ? convolution(convolutions.taps) : attention();
    for (const [position, x] of states.entries()) {
      const attended = added('post_attention_layernorm', mixes[position] as number[]).map(
        (value, at) => value + (x[at] as number),
      );
      const inputNorm = outputNorms ? 'pre_feedforward_layernorm' : 'post_attention_layernorm';
      const input = normalize(architecture, attended, tensor(`${prefix}.${inputNorm}.weight`));
      const isGated = mlp !== 'squared-relu';
      const isJoined = isGated && architecture.joinedGate;
      const joined = isJoined ? multiply(`${prefix}.mlp.gate_up_proj`, input) : [];
      const up = isJoined ? joined.slice(architecture.mlpWidth) : multiply(`${prefix}.mlp.up_proj`, input);
      const gate = isGated && !isJoined ? multiply(`${prefix}.mlp.gate_proj`, input) : joined;
      const hidden = up.map((value, at) => {
        const gated = gate[at] as number;
        if (mlp === 'squared-relu') return Math.max(0, value) ** 2;
        if (mlp === 'gated-silu') return (value * gated) / (1 + Math.exp(-gated));
        return (
          value * 0.5 * gated * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (gated + 0.044715 * gated ** 3)))
        );
      });
      states[position] = added('post_feedforward_layernorm', multiply(`${prefix}.mlp.down_proj`, hidden)).map(
        (value, at) => value + (attended[at] as number),
      );
    }
  }
  return states;
}

/** Log-probability of a token and entropy, at a state before the head. `legal`: null when all tokens are. */
export function float64Decision(
  architecture: Architecture,
  tensors: ReadonlyMap<string, ArrayLike<number>>,
  state: readonly number[],
  { token, temperature, legal }: { token: number; temperature: number; legal: Int32Array | null },
): { logprob: number; entropy: number } {
  const { vocabularySize, width, tiedEmbeddings } = architecture;
  const x = normalize(architecture, state, tensors.get('model.norm.weight') as ArrayLike<number>);
  const head = tensors.get(
    tiedEmbeddings ? 'model.embed_tokens.weight' : 'lm_head.weight',
  ) as ArrayLike<number>;
  const tokens = legal ? [...legal] : Array.from({ length: vocabularySize }, (_, id) => id);
  const logits = tokens.map(
    (id) =>
      (architecture.logitScale *
        x.reduce((sum, value, at) => sum + value * (head[id * width + at] as number), 0)) /
      (temperature || 1),
  );
  const probabilities = softmax(logits);
  const entropy = -probabilities.reduce((sum, p) => sum + (p > 0 ? p * Math.log(p) : 0), 0);
  return { logprob: Math.log(probabilities[tokens.indexOf(token)] as number), entropy };
}

const dot = (one: readonly number[], other: readonly number[]) =>
  one.reduce((sum, value, at) => sum + value * (other[at] as number), 0);

function softmax(values: readonly number[]): number[] {
  const largest = Math.max(...values);
  const exponentials = values.map((value) => Math.exp(value - largest));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}

function normalize(
  { normEpsilon, normOffset }: Architecture,
  x: readonly number[],
  weight: ArrayLike<number>,
): number[] {
  const root = Math.sqrt(dot(x, x) / x.length + normEpsilon);
  return x.map((value, at) => (value / root) * (normOffset + (weight[at] as number)));
}

/** The rotation of position p: of the elements i and i + half by the angle p * theta^(-i / half). */
function rotate(positions: Architecture['positions'], x: readonly number[], position: number): number[] {
  if (positions === 'learned') return [...x];
  const half = x.length / 2;
  return x.map((value, at) => {
    const angle = position * positions.theta ** (-(at % half) / half);
    const other = at < half ? -(x[at + half] as number) : (x[at - half] as number);
    return value * Math.cos(angle) + other * Math.sin(angle);
  });
}
