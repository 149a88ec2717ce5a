import { largestOf } from '../../../util/extremes.ts';
import { sumOf } from '../../../util/sums.ts';
import { finalNormTensor, layerTensorName, sublayerNorms } from '../checkpoint/tensors.ts';
import type { LoraSettings } from '../runner/adapter-vector.ts';
import type { BaseWeights } from '../runner/layer-feeds.ts';
import { type Architecture, kindOf } from '../weights/architecture.ts';
import { type Parts, runAttention } from './exact-attention.ts';
import { runConvolution } from './exact-convolution.ts';
import {
  backward,
  both,
  forward,
  logSoftmax,
  multiply,
  normalize,
  normalizeBackward,
  products,
  type Rows,
  sum,
  transposedProducts,
  type Values,
} from './exact-numbers.ts';

/** A decision whose probability the loss is made of. */
export interface ExactDecision {
  token: number;
  temperature: number;
  /** Ids with a probability; null for all. */
  legal: Int32Array | null;
  /** dLoss/dlogprob of the token and dLoss/dentropy. */
  slope: number;
  entropySlope: number;
}

/** What a sequence gives, with one item for each of its tokens. */
export interface ExactRun {
  /** The states before the head. */
  states: Rows;
  logits: Rows;
  /** The largest attention score by size: its rounding error is the relative one of its probability. */
  largestScore: number;
  /** The loss of one decision for each token, and its gradients. */
  learn(decisions: readonly ExactDecision[]): ExactLoss;
}

export interface ExactLoss {
  /** Log-probabilities of the decisions' tokens, and entropies of their distributions. */
  logprobs: number[];
  entropies: number[];
  /** dLoss/dlogits before temperature and mask. */
  logitGradients: Rows;
  /** dLoss/dstates before the head. */
  stateGradients: Rows;
  /** dLoss/dA and dLoss/dB by the names of their tensors, such as `model.layers.0.mlp.up_proj.lora_A.weight`. */
  gradients: Map<string, Values>;
  /**
   * By the names of projections of queries and keys: how much larger the terms of their gradient are than their sum, and
   * so its relative error.
   */
  cancellations: Map<string, number>;
}

/**
 * A checkpoint with an adapter, forward and backward, in float64 and written out plainly, to check what a runtime
 * computes. It shares no code with the graphs. Returns a run for each number of layers: the
 * first layer with the head after it, then the first two, and so on.
 *
 * `adapter`: A and B by the names of their tensors.
 */
export function runExactly(
  { architecture, weights }: BaseWeights,
  { lora, adapter }: { lora: LoraSettings; adapter: ReadonlyMap<string, Float32Array> },
  tokens: readonly number[],
): ExactRun[] {
  const { width, layers, normEpsilon, embeddingScale, logitScale, tiedEmbeddings } = architecture;
  const gradients = new Map<string, Values>();
  const weight = (name: string) => weights.get(name) as Float32Array;
  const parts: Parts = {
    cancellations: new Map(),
    weight,
    gain: (name) => weight(`${name}.weight`).map((value) => value + architecture.normOffset),
    linear: (name) => ({
      weight: weights.get(`${name}.weight`) as Float32Array,
      bias: weights.get(`${name}.bias`),
      a: adapter.get(`${name}.lora_A.weight`),
      b: adapter.get(`${name}.lora_B.weight`),
      scale: lora.alpha / lora.rank,
      keep: (a, b) => gradients.set(`${name}.lora_A.weight`, a).set(`${name}.lora_B.weight`, b),
    }),
  };
  const table = weight('model.embed_tokens.weight');
  const finalGain = parts.gain(finalNormTensor(architecture).replace(/\.weight$/, ''));
  const gain = finalGain.map((value) => value * logitScale);
  const head = tiedEmbeddings ? table : weight('lm_head.weight');
  let states: Rows = tokens.map((token) =>
    Float64Array.from(table.subarray(token * width, (token + 1) * width), (value) => value * embeddingScale),
  );
  const passes: LayerRun[] = [];
  return Array.from({ length: layers }, (_, layer) => {
    const pass = runLayer(architecture, states, layer, parts);
    passes.push(pass);
    states = pass.output;
    const last = pass.output;
    const logits = products(
      head,
      last.map((state) => normalize(state, gain, normEpsilon)),
    );
    return {
      states: last,
      logits,
      largestScore: largestOf(passes.map(({ largestScore }) => largestScore)),
      learn(decisions) {
        const decided = logits.map((row, at) => decide(row, decisions[at] as ExactDecision));
        const logitGradients = decided.map(({ gradient }) => gradient);
        const stateGradients = transposedProducts(head, logitGradients, width).map((gradient, at) =>
          normalizeBackward(gradient, last[at] as Values, gain, normEpsilon),
        );
        passes
          .slice(0, layer + 1)
          .reduceRight((gradient, { backward }) => backward(gradient), stateGradients);
        return {
          logprobs: decided.map(({ logprob }) => logprob),
          entropies: decided.map(({ entropy }) => entropy),
          logitGradients,
          stateGradients,
          gradients,
          cancellations: parts.cancellations,
        };
      },
    };
  });
}

/**
 * Log-probability and entropy of a decision under softmax(z / temperature) over the legal tokens, and the gradient of
 * slope * logprob + entropySlope * entropy: with p the probabilities and H the entropy,
 * (slope * ([j = token] - p_j) - entropySlope * p_j * (log p_j + H)) / temperature.
 */
function decide(
  logits: Values,
  { token, temperature, legal, slope, entropySlope }: ExactDecision,
): { logprob: number; entropy: number; gradient: Values } {
  const ids = legal ?? Int32Array.from(logits.keys());
  const scaled = Float64Array.from(ids, (id) => (logits[id] as number) / temperature);
  const logprobs = logSoftmax(scaled);
  const entropy = -sumOf(logprobs, (logprob) => Math.exp(logprob) * logprob);
  const gradient = new Float64Array(logits.length);
  for (const [index, id] of ids.entries()) {
    const logprob = logprobs[index] as number;
    const p = Math.exp(logprob);
    gradient[id] =
      (slope * ((id === token ? 1 : 0) - p) - entropySlope * p * (logprob + entropy)) / temperature;
  }
  return { logprob: logprobs[ids.indexOf(token)] as number, entropy, gradient };
}

interface LayerRun {
  output: Rows;
  /** From dLoss/doutput to dLoss/dinput. */
  backward: (gradient: Rows) => Rows;
  largestScore: number;
}

/**
 * A layer of a Llama: attention and a gated MLP, each behind a norm and added to the states. Gemma's norms what is added
 * too, Granite's scales it and may have one matrix for gate and `up`, and LFM2's may have a convolution in place of attention.
 */
function runLayer(architecture: Architecture, input: Rows, layer: number, parts: Parts): LayerRun {
  const nameOf = (part: Parameters<typeof layerTensorName>[2]) => layerTensorName(architecture, layer, part);
  const { linear } = parts;
  const norms = sublayerNorms(architecture);
  const normed = (name: typeof norms.mlp.after, rows: Rows) =>
    name === null ? null : runNorm(architecture, nameOf(name), rows, parts);
  const attentionNorm = runNorm(architecture, nameOf(norms.attention.before), input, parts);
  const isConvolution = kindOf(architecture, layer) === 'convolution';
  const attention = isConvolution
    ? { ...runConvolution(architecture, attentionNorm.output, layer, parts), largestScore: 0 }
    : runAttention(architecture, attentionNorm.output, layer, parts);
  const output = linear(nameOf(isConvolution ? 'out_proj' : 'o_proj'));
  const attentionAdded = forward(output, attention.mixed);
  const added = normed(norms.attention.after, attentionAdded);
  const scaled = (rows: Rows) => rows.map((row) => row.map((value) => value * architecture.residualScale));
  const middle = sum(input, scaled(added?.output ?? attentionAdded));
  const mlpNorm = runNorm(architecture, nameOf(norms.mlp.before), middle, parts);
  const mlpInput = mlpNorm.output;
  const down = linear(nameOf('down_proj'));
  const { gates, ups, backward: inputsBackward } = runMlpInputs(architecture, mlpInput, nameOf, parts);
  const activation = architecture.mlp === 'gated-gelu' ? gelu : silu;
  const hidden = both(gates, ups, (g, u) => activation.value(g) * u);
  const mlpAdded = forward(down, hidden);
  const last = normed(norms.mlp.after, mlpAdded);
  return {
    output: sum(middle, scaled(last?.output ?? mlpAdded)),
    largestScore: attention.largestScore,
    backward(gradient) {
      const mlpOutputGradient = last?.backward(scaled(gradient)) ?? scaled(gradient);
      const hiddenGradient = backward(down, mlpOutputGradient, hidden);
      const upGradient = both(hiddenGradient, gates, (d, g) => d * activation.value(g));
      const slopes = gates.map((row) => row.map(activation.slope));
      const gateGradient = both(both(hiddenGradient, ups, multiply), slopes, multiply);
      const mlpGradient = inputsBackward(gateGradient, upGradient);
      const middleGradient = sum(gradient, mlpNorm.backward(mlpGradient));
      const outputGradient = added?.backward(scaled(middleGradient)) ?? scaled(middleGradient);
      const inputGradient = attention.backward(backward(output, outputGradient, attention.mixed));
      return sum(middleGradient, attentionNorm.backward(inputGradient));
    },
  };
}

/** What the gate of an MLP takes, and what it multiplies: by a matrix for each, or the two halves of one. */
function runMlpInputs(
  { joinedGate, mlpWidth }: Architecture,
  input: Rows,
  nameOf: (part: 'gate_proj' | 'up_proj' | 'gate_up_proj') => string,
  { linear }: Parts,
): { gates: Rows; ups: Rows; backward: (gates: Rows, ups: Rows) => Rows } {
  if (joinedGate) {
    const joined = linear(nameOf('gate_up_proj'));
    const all = forward(joined, input);
    return {
      gates: all.map((row) => row.subarray(0, mlpWidth)),
      ups: all.map((row) => row.subarray(mlpWidth)),
      backward: (gates, ups) =>
        backward(
          joined,
          gates.map((row, at) => Float64Array.of(...row, ...(ups[at] as Values))),
          input,
        ),
    };
  }
  const [gate, up] = [linear(nameOf('gate_proj')), linear(nameOf('up_proj'))];
  return {
    gates: forward(gate, input),
    ups: forward(up, input),
    backward: (gates, ups) => sum(backward(gate, gates, input), backward(up, ups, input)),
  };
}

function runNorm(
  { normEpsilon }: Architecture,
  name: string,
  input: Rows,
  parts: Parts,
): { output: Rows; backward: (gradient: Rows) => Rows } {
  const gain = parts.gain(name);
  return {
    output: input.map((row) => normalize(row, gain, normEpsilon)),
    backward: (gradient) =>
      gradient.map((row, at) => normalizeBackward(row, input[at] as Values, gain, normEpsilon)),
  };
}

/** The functions of a gate, with their derivatives. */
const silu = {
  value: (g: number) => g / (1 + Math.exp(-g)),
  slope: (g: number) => {
    const s = 1 / (1 + Math.exp(-g));
    return s + g * s * (1 - s);
  },
};

/** 0.5 g (1 + tanh(z)) with z = sqrt(2 / pi) (g + 0.044715 g^3). */
const gelu = {
  value: (g: number) => 0.5 * g * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (g + 0.044715 * g ** 3))),
  slope: (g: number) => {
    const t = Math.tanh(Math.sqrt(2 / Math.PI) * (g + 0.044715 * g ** 3));
    return 0.5 * (1 + t) + 0.5 * g * (1 - t * t) * Math.sqrt(2 / Math.PI) * (1 + 3 * 0.044715 * g * g);
  },
};
