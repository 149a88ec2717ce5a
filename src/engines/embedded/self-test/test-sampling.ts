import { smallestOf } from '../../../util/extremes.ts';
import { sumOf } from '../../../util/sums.ts';
import { Decoder } from '../sampler/decoder.ts';
import { logprobAt, softmaxOf } from '../sampling/distribution.ts';
import { logSoftmax } from './exact-numbers.ts';
import { allowed, rowsOf, type Trial, tokens } from './trial.ts';

/**
 * Tests sampling: a prompt beside a shorter one, then the next token alone, then one token of each, and tokens that the
 * graph chooses. With two layers each graph runs, also the one between two attentions.
 */
export async function testSampling(trial: Trial): Promise<void> {
  const { base, adapter, exact } = trial.part(2);
  const { vocabularySize } = base.architecture;
  const all = Int32Array.from({ length: vocabularySize }, (_, id) => id);
  const decoder = await Decoder.create(trial.runtime, base, adapter, trial.attention);
  const runs = [
    { part: 'a prompt', chunks: [chunk(0, 3), chunk(0, 2)], everyToken: true, positions: [0, 1, 2, 0, 1] },
    { part: 'one token', chunks: [chunk(3, 4)], everyToken: false, positions: [3] },
    { part: 'two tokens', chunks: [chunk(3, 4), chunk(2, 3)], everyToken: false, positions: [3, 2] },
  ];
  try {
    decoder.cache.reserve(2, tokens.length, 0);
    for (const { part, chunks, everyToken, positions } of runs) {
      const rows = await decoder.run(0, chunks, { everyToken });
      const exactRows = positions.map((position) => exact.logits[position] as Float64Array);
      trial.compare(`sampling: logits of ${part}`, rowsOf(rows.logits, vocabularySize), exactRows, exact);
      const logprobs = exactRows.map((_, row) => {
        const distribution = softmaxOf(rows, row, all);
        return Float64Array.from(all, (token) =>
          distribution ? logprobAt(distribution, token) : Number.NaN,
        );
      });
      trial.compare(`sampling: log-probabilities of ${part}`, logprobs, exactRows.map(logSoftmax), exact);
    }
    await testDraws(trial, decoder);
  } finally {
    await decoder.close();
  }
}

/**
 * Two draws of a step: from all tokens and from half of them, at two temperatures. The token must be the one that its
 * number chooses by the cumulative distribution, and the log-probabilities of it and of the likeliest tokens right.
 */
async function testDraws(trial: Trial, decoder: Decoder): Promise<void> {
  const { base, exact } = trial.part(2);
  const all = Int32Array.from({ length: base.architecture.vocabularySize }, (_, id) => id);
  const draws = [
    { legal: all, temperature: 0.7, uniform: 0.37, top: 5 },
    { legal: all.filter((id) => id % 2 === 0), temperature: 1.5, uniform: 0.81, top: 5 },
  ];
  const chunks = [chunk(3, 4), chunk(2, 3)];
  const { outcomes } = await decoder.step(0, chunks, draws);
  for (const [row, { legal, temperature, uniform }] of draws.entries()) {
    const drawn = outcomes[row];
    // Graphs that choose no tokens give logits, which are tested.
    if (drawn === null || typeof drawn !== 'object') continue;
    const logits = exact.logits[chunks[row]?.start as number] as Float64Array;
    const logprobs = logSoftmax(Float64Array.from(legal, (id) => (logits[id] as number) / temperature));
    const index = legal.indexOf(drawn.token);
    const actual = [drawn.logprob, ...drawn.top.map(({ logprob }) => logprob)];
    const likeliest = logprobs.toSorted().reverse().slice(0, drawn.top.length);
    const part = 'sampling: log-probabilities of tokens that the graph chose';
    trial.compare(part, [actual], [[logprobs[index] ?? Number.NaN, ...likeliest]], exact);
    const below = sumOf(logprobs.slice(0, index), (logprob) => Math.exp(logprob));
    const above = below + Math.exp(logprobs[index] as number);
    const outside = Math.max(0, below - uniform, uniform - above);
    // Probabilities change by as much as logits do.
    const limit = allowed(exact) * Math.max(1, -smallestOf(logprobs));
    trial.refuseAbove('sampling: the numbers that choose tokens', outside, limit);
  }
}

const chunk = (start: number, end: number) => ({ tokens, start, end });
