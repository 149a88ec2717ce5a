import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineError } from '../../../src/engines/engine.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { type Datum, plainSampling } from '../../../src/learning/index.ts';
import { Bench, base, batchOf } from './support.ts';

/** What the engine is doing when it is closed. */
const moments = ['starting', 'sampling', 'training'] as const;

const tokens = Array.from({ length: 64 }, (_, index) => 100 + (index % 100));
const logprobs = tokens.slice(1).map(() => null);
const span = { start: 1, length: 63, logprobs, sampling: plainSampling, constraint: null, weight: 0.01 };
const datum: Datum<Constraint> = { tokens, spans: [{ ...span, advantage: 1 }] };

/** Closes engines in the middle of their work; prints how each call ended, one per line. */
for (let round = 0; round < 9; round++) {
  const moment = moments[round % moments.length] as (typeof moments)[number];
  const bench = await Bench.open();
  const { engine, folder } = bench;
  const begun = Promise.withResolvers<void>();
  const when = (now: (typeof moments)[number]) => () => {
    if (now === moment) begun.resolve();
  };
  const endless = { constraint: null, maxTokens: 480, sampling: { ...plainSampling, ignoreEnd: true } };
  const request = (seed: number) => bench.request(`order ${seed}`, seed, endless);
  const calls: Promise<unknown>[] = [];
  for (let seed = 0; seed < 32; seed++) calls.push(engine.generate(request(seed), when('sampling')));
  calls.push(
    engine.train({
      from: base,
      folder: join(folder, 'job'),
      batches: Array.from({ length: 1000 }, () => batchOf([datum, datum])),
      onStep: when('training'),
    }),
  );
  when('starting')();
  const ends = Promise.allSettled(calls);
  await begun.promise;
  const order: string[] = [];
  const settled = ends.then(() => order.push('settled'));
  await Promise.all([engine.close(), engine.close()]).then(() => order.push('closed'));
  await settled;
  const codes = (await ends).map((end) =>
    end.status === 'rejected' && EngineError.isInstance(end.reason) ? end.reason.code : String(end.status),
  );
  const late = await engine.generate(request(1)).catch((error: unknown) => error);
  codes.push(EngineError.isInstance(late) ? late.code : 'late');
  const files = await readdir(folder);
  process.stdout.write(`${JSON.stringify({ moment, order, codes: [...new Set(codes)], files })}\n`);
  await bench.close();
}
