import { adapterShapes, type GradientSum } from '../runner/adapter-vector.ts';
import { HeadRunner } from '../runner/head-runner.ts';
import { LayerRunner } from '../runner/layer-runner.ts';
import type { ExactDecision, ExactRun } from './exact-model.ts';
import { rowsOf, type Trial, tokens } from './trial.ts';

/**
 * Tests training with a sequence beside a shorter one, whose padding must change nothing: forward, head and backward, and
 * forward without the adapter. Layers of one kind run in the same graphs, so one of each is enough.
 */
export async function testTraining(trial: Trial): Promise<void> {
  const { base, adapter, exact } = trial.part(trial.kinds);
  const { width, vocabularySize } = base.architecture;
  const decisions = someDecisions(exact);
  const loss = exact.learn(decisions);
  const compare = (
    part: string,
    actual: readonly ArrayLike<number>[],
    expected: readonly ArrayLike<number>[],
  ) => trial.compare(`training: ${part}`, actual, expected, exact);
  const compareGradients = (part: string, actual: Float32Array) => {
    for (const [row, expected] of loss.stateGradients.entries()) {
      const own = actual.subarray(row * width, (row + 1) * width);
      trial.compareGradient(`training: ${part}`, own, expected, { exact, cancellation: 0 });
    }
  };
  const layers = new LayerRunner(trial.runtime, base, adapter.lora);
  const total = new Float32Array(adapter.vector.length);
  const sum = sumOf(total);
  const head = await HeadRunner.create(trial.runtime, base, adapter.lora);
  try {
    const batch = { sequences: [tokens, tokens.slice(0, 2)], time: tokens.length };
    const pass = await layers.forward(batch, adapter.vector);
    const states = pass.states.at(-1)?.data as Float32Array;
    const before = { states, vector: adapter.vector };
    compare('states', rowsOf(states, width), [...exact.states, ...exact.states.slice(0, 2)]);
    const rows = Int32Array.from(tokens.keys());
    const { logits } = await head.logits(before, rows);
    compare('logits', rowsOf(logits, vocabularySize), exact.logits);
    const softmax = {
      states: rows,
      tokens: Int32Array.from(decisions, ({ token }) => token),
      temperatures: Float32Array.from(decisions, ({ temperature }) => temperature),
      legal: (index: number) => decisions[index]?.legal ?? null,
    };
    const { logprobs, entropies } = await head.probabilities(before, softmax);
    // Together, because entropies alone may be near 0.
    const probabilities = [[...logprobs, ...entropies]];
    compare('log-probabilities and entropies', probabilities, [[...loss.logprobs, ...loss.entropies]]);
    const byLogits = new Float32Array(states.length);
    const slopes = Float32Array.from(loss.logitGradients.flatMap((row) => [...row]));
    await head.addLogitsGradient(before, rows, slopes, { gradient: byLogits, sum });
    compareGradients('gradient by the logits', byLogits);
    const gradient = new Float32Array(states.length);
    const own = {
      logprobs: Float32Array.from(decisions, ({ slope }) => slope),
      entropies: Float32Array.from(decisions, ({ entropySlope }) => entropySlope),
    };
    await head.addSlopes(before, softmax, own, { gradient, sum });
    compareGradients('gradient by the probabilities', gradient);
    layers.end(pass);
    for (const keptLayers of trial.runtime.device === 'cpu' ? [0, trial.kinds] : [0]) {
      total.fill(0);
      const again = await layers.forward(batch, adapter.vector, { keptLayers });
      await layers.backward(again, gradient.slice(), sum);
      for (const { name, offset, size } of adapterShapes(base.architecture, adapter.lora)) {
        const expected = loss.gradients.get(name) as Float64Array;
        const cancellation = loss.cancellations.get(name.replace(/\.lora_[AB]\.weight$/, '')) ?? 0;
        const found = total.subarray(offset, offset + size);
        trial.compareGradient(`training: gradient of ${name}`, found, expected, { exact, cancellation });
      }
    }
    // The layers without an adapter, which a KL penalty needs, and an adapter that changes nothing.
    const zero = await layers.forward(batch, new Float32Array(adapter.vector.length));
    const none = await layers.forward(batch, null);
    const last = (of: typeof zero) => rowsOf(of.states.at(-1)?.data as Float32Array, width);
    compare('states without an adapter', last(none), last(zero));
  } finally {
    await layers.release();
    await head.release();
  }
}

/**
 * One decision for each token: with all tokens legal and with some, at several temperatures. The least likely token is
 * taken, because the gradient of a certain one is nothing but rounding errors.
 */
function someDecisions({ logits }: ExactRun): ExactDecision[] {
  return logits.map((row, at) => {
    const all = Int32Array.from(row.keys());
    const legal = at < 2 ? null : all.filter((id) => id % 2 === 0);
    const token = (legal ?? all).reduce((least, id) =>
      (row[id] as number) < (row[least] as number) ? id : least,
    );
    const temperature = [1, 0.7, 1, 1.5][at] as number;
    const isEven = at % 2 === 0;
    return { token, temperature, legal, slope: isEven ? -1 : 0.5, entropySlope: isEven ? 0 : 0.2 };
  });
}

/** Adds to a vector, as the trainer's vector does. Nothing of the head is trained here. */
const sumOf = (total: Float32Array): GradientSum => ({
  add: (offset, added) => {
    for (const [index, value] of added.entries())
      total[offset + index] = (total[offset + index] as number) + value;
  },
  addRows: () => {},
});
