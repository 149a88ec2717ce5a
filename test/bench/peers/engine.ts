import { z } from 'zod';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine } from '../../../src/engines/engine.ts';
import { measureDecoding, measureTraining, replyTokens } from '../engine.ts';
import { PeerProgram } from './peer-program.ts';
import { measureInTurn, median, medianRatio } from './rounds.ts';

/** Tokens of one measurement of decoding, also in engine.py. */
const sampledTokens = 16_384;

/** Rounds before the counted ones: V8 makes the code of a step almost twice as fast over its first 100,000 tokens. */
const warmRounds = 6;

const answer = z.object({ tokensPerSecond: z.number() });

/** Tokens per second, as medians. */
export interface EnginePeerRow {
  threads: number;
  batch: number;
  work: 'decoding' | 'training';
  ours: number;
  eager: number;
  /** Null where PyTorch cannot compile, as without a C++ compiler. */
  compiled: number | null;
  /** Ours relative to the faster of the two. */
  ratio: number;
}

const ours = {
  decoding: (engine: Engine, batch: number) =>
    measureDecoding(engine, batch, Math.max(sampledTokens, batch * replyTokens)),
  training: (engine: Engine, batch: number) =>
    measureTraining(engine, batch, Math.max(2, Math.round(64 / batch))),
};

/** Our engine beside the same architecture in PyTorch, doing the same work. */
export async function* benchEnginePeers(options: {
  python: string;
  threads: readonly number[];
  batches: readonly number[];
  rounds: number;
}): AsyncGenerator<EnginePeerRow> {
  const { python, batches, rounds } = options;
  for (const threads of options.threads) {
    await using peer = new PeerProgram(python, 'engine.py', [String(threads)]);
    const engine = await createEmbeddedEngine({ threads, samplerThreads: threads });
    try {
      for (const work of ['decoding', 'training'] as const)
        for (const batch of batches) {
          const ask = async (variant: 'eager' | 'compiled') =>
            (await peer.ask({ work, variant, batch }, answer)).tokensPerSecond;
          const compiles = await ask('compiled').then(
            () => true,
            (error: unknown) => {
              console.error(`PyTorch does not compile here: ${String(error).split('\n')[0]}`);
              return false;
            },
          );
          const measures = {
            ours: () => ours[work](engine, batch),
            eager: () => ask('eager'),
            compiled: () => (compiles ? ask('compiled') : Promise.resolve(0)),
          };
          await measureInTurn(warmRounds, measures);
          const rates = await measureInTurn(rounds, measures);
          const eager = median(rates.eager);
          const compiled = median(rates.compiled);
          yield {
            threads,
            batch,
            work,
            ours: median(rates.ours),
            eager,
            compiled: compiles ? compiled : null,
            ratio: medianRatio(rates.ours, compiled > eager ? rates.compiled : rates.eager),
          };
        }
    } finally {
      await engine.close();
    }
  }
}
