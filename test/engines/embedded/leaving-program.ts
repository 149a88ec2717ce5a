import { rmSync } from 'node:fs';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { type Datum, plainSampling } from '../../../src/learning/index.ts';
import { Bench, base, batchOf } from './support.ts';

/** Leaves the process in the middle of sampling and training, without closing the engine. */
const [how] = process.argv.slice(2);
const bench = await Bench.open();
process.on('exit', () => rmSync(bench.folder, { recursive: true }));
const tokens = Array.from({ length: 256 }, (_, index) => 100 + (index % 100));
const logprobs = tokens.slice(1).map(() => null);
const span = { start: 1, length: 255, logprobs, sampling: plainSampling, constraint: null, weight: 0.01 };
const datum: Datum<Constraint> = { tokens, spans: [{ ...span, advantage: 1 }] };
const training = bench.engine.train({
  from: base,
  folder: `${bench.folder}/job`,
  batches: Array.from({ length: 1000 }, () => batchOf([datum])),
  onStep: () => {
    if (how === 'throw') throw new Error('not caught');
    process.exit(7);
  },
});
const endless = { constraint: null, maxTokens: 480, sampling: { ...plainSampling, ignoreEnd: true } };
const replies = Array.from({ length: 32 }, (_, seed) => bench.request(`order ${seed}`, seed, endless));
await Promise.all([training, bench.generate(replies)]);
