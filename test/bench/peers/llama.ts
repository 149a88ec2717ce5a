import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEmbeddedEngine } from 'martingale/embedded';
import { z } from 'zod';
import { writeGguf } from '../../../src/engines/embedded/checkpoint/write-gguf.ts';
import { inspectCheckpoint } from '../../../src/engines/embedded/open-checkpoint.ts';
import type { GenerateRequest } from '../../../src/engines/engine.ts';
import { plainSampling } from '../../../src/learning/index.ts';
import { largestOf } from '../../../src/util/extremes.ts';
import { PeerProgram } from './peer-program.ts';
import { measureInTurn, median, medianRatio } from './rounds.ts';

const threads = 2;
const promptTokens = 128;
const reply = 64;

export interface LlamaRow {
  /** Replies at once. */
  batch: number;
  what: string;
  /** Median of sampled tokens a second, after the prompts; NaN if it could not be measured. */
  perSecond: number;
  /** martingale's rate relative to this one. */
  ratio: number;
  /** Largest resident memory of the process so far. Ours has the bench in it. */
  peakBytes: number;
}

const answer = z.object({ tokensPerSecond: z.number(), peakBytes: z.number() });

/** Decoding of a published model beside llama.cpp, with the same weights in its formats. */
export async function* benchLlamaPeers({
  gguf,
  packages,
  batches,
  rounds,
}: {
  /** The model in Q4_1. */
  gguf: string;
  /** Folder of llama.cpp's packages. */
  packages: string;
  batches: readonly number[];
  rounds: number;
}): AsyncGenerator<LlamaRow> {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const contextLength = 512;
  const engine = await createEmbeddedEngine({
    threads,
    samplerThreads: threads,
    checkpoints: [{ folder: gguf, id: 'published', contextLength }],
  });
  try {
    const { source, language } = await inspectCheckpoint({ folder: gguf });
    const files: Record<string, string> = { 'llama.cpp Q4_1': gguf };
    for (const type of ['q8_0', 'f16'] as const) {
      const path = join(folder, `${type}.gguf`);
      const adapter = { rank: 1, alpha: 1, targets: [], tensors: new Map() };
      await writeGguf(source, adapter, path, { name: 'published', type, format: language.format });
      files[`llama.cpp ${type.toUpperCase()}`] = path;
    }
    const text = language.tokenizer.encode(
      'The quick brown fox jumps over the lazy dog. '.repeat(promptTokens),
    );
    const prompt = text.slice(0, promptTokens - 1);
    const peaks: Record<string, number> = {};
    for (const batch of batches) {
      const ours = async () => {
        const rate = await decode(batch, (number) => engineReply([text[number % 9] ?? 0, ...prompt], number));
        peaks.martingale = process.resourceUsage().maxRSS * 1024;
        return rate;
      };
      const engineReply = (tokens: number[], seed: number): GenerateRequest => ({
        ...{ weights: { baseModel: 'published', folder: null }, prompt: tokens, maxTokens: reply, seed },
        sampling: { ...plainSampling, ignoreEnd: true },
        ...{ stopStrings: [], stopTokens: [], constraint: null, topLogprobs: 0, priority: 0 },
        cacheSalt: `${Math.random()}`,
      });
      const decode = async (count: number, request: (number: number) => GenerateRequest) => {
        const firsts: number[] = [];
        await Promise.all(
          Array.from({ length: count }, (_, number) => {
            let begun = false;
            return engine.generate(request(number), () => {
              if (!begun) firsts.push(performance.now());
              begun = true;
            });
          }),
        );
        return (count * (reply - 1) * 1000) / (performance.now() - largestOf(firsts));
      };
      // One at a time: their threads would wait for each other.
      const measures: Record<string, () => Promise<number>> = { martingale: ours };
      for (const [what, file] of Object.entries(files))
        measures[what] = async () => {
          await using peer = new PeerProgram(process.execPath, 'llama_decode.mjs', [
            packages,
            file,
            `${threads}`,
          ]);
          await peer.ask({ batch, prompt, reply: 8 }, answer);
          const { tokensPerSecond, peakBytes } = await peer.ask({ batch, prompt, reply }, answer);
          peaks[what] = peakBytes;
          return tokensPerSecond;
        };
      await ours();
      const rates = await measureInTurn(rounds, measures);
      for (const [what, measured] of Object.entries(rates))
        yield {
          ...{ batch, what, perSecond: median(measured) },
          ratio: medianRatio(rates.martingale ?? [], measured),
          peakBytes: peaks[what] ?? Number.NaN,
        };
    }
  } finally {
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  }
}
