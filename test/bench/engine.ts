import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import type { Engine, GenerateRequest } from '../../src/engines/engine.ts';
import type { Constraint } from '../../src/language/grammar/constraint.ts';
import { type Datum, plainSampling } from '../../src/learning/index.ts';

export const benchModel = 'martingale-tiny';
export const replyTokens = 64;
const promptTokens = 16;
const weights = { baseModel: benchModel, folder: null };

export function promptOf(engine: Engine, index: number): number[] {
  const text = `${index} ${'the quick brown fox jumps over the lazy dog '.repeat(2)}`;
  return engine.tokenizer(benchModel).encode(text).slice(0, promptTokens);
}

/** Sampled tokens per second with `batch` replies in parallel, each of up to 64 tokens. */
export async function measureDecoding(engine: Engine, batch: number, tokens: number): Promise<number> {
  let made = 0;
  let salt = performance.now();
  const rounds = Math.max(1, Math.round(tokens / (batch * replyTokens)));
  // PyTorch gets token ids too.
  const prompts = Array.from({ length: rounds * batch }, (_, index) => promptOf(engine, index));
  const started = performance.now();
  for (let round = 0; round < rounds; round++) {
    const replies = await Promise.all(
      Array.from({ length: batch }, (_, index) => {
        const request: GenerateRequest = {
          weights,
          prompt: prompts[round * batch + index] as number[],
          sampling: plainSampling,
          seed: index,
          maxTokens: replyTokens,
          stopStrings: [],
          stopTokens: [],
          constraint: null,
          topLogprobs: 0,
          priority: 0,
          // A different one for each request, so that the prefix cache does not help.
          cacheSalt: String(salt++),
        };
        return engine.generate(request);
      }),
    );
    for (const reply of replies) made += reply.tokens.length;
  }
  return made / ((performance.now() - started) / 1000);
}

/** Trained tokens per second. A step has `batch` sequences of 128 tokens; every token after the 16th is a decision. */
export async function measureTraining(engine: Engine, batch: number, steps: number): Promise<number> {
  const length = 128;
  const datum = (row: number): Datum<Constraint> => ({
    tokens: Array.from({ length }, (_, at) => (row * 31 + at * 17) % 400),
    spans: [
      {
        start: promptTokens,
        length: length - promptTokens,
        logprobs: new Array(length - promptTokens).fill(null),
        sampling: plainSampling,
        constraint: null,
        advantage: 1,
        weight: 1 / (batch * length),
      },
    ],
  });
  const datums = Array.from({ length: batch }, (_, row) => datum(row));
  const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  let first = 0;
  let last = 0;
  let taken = 0;
  try {
    await engine.train({
      from: weights,
      folder: join(folder, 'checkpoint'),
      batches: Array.from({ length: steps + 1 }, () => ({
        datums,
        loss: { type: 'cross_entropy' as const },
        reference: null,
        learningRate: 1e-3,
      })),
      onStep: () => {
        last = performance.now();
        if (taken++ === 0) first = last;
      },
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return (steps * batch * length) / ((last - first) / 1000);
}

export interface EngineRow {
  threads: number;
  batch: number;
  training: number;
  decoding: number;
}

export async function benchEngine(threads: number, batches: number[]): Promise<EngineRow[]> {
  const engine = await createEmbeddedEngine({ threads, samplerThreads: threads });
  try {
    await measureDecoding(engine, 8, 1024);
    await measureTraining(engine, 8, 2);
    const rows: EngineRow[] = [];
    for (const batch of batches)
      rows.push({
        threads,
        batch,
        decoding: await measureDecoding(engine, batch, Math.max(2048, batch * replyTokens)),
        training: await measureTraining(engine, batch, Math.max(2, Math.round(64 / batch))),
      });
    return rows;
  } finally {
    await engine.close();
  }
}
