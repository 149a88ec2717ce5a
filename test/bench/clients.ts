import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '../../src/client/index.ts';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { plainSampling } from '../../src/learning/index.ts';
import { startService } from '../../src/service/index.ts';
import { benchModel } from './engine.ts';

export interface ClientsRow {
  clients: number;
  /** Tokens of each reply. */
  replyTokens: number;
  /** Sampled tokens per second of the engine alone, with the same number of callers. */
  bare: number;
  /** The same through HTTP, whole answers. */
  whole: number;
  completions: number;
  /** The same through HTTP, streamed. */
  streamed: number;
}

/** Makes one call; returns the number of sampled tokens. */
type Call = (index: number) => Promise<number>;

/** Keeps `clients` calls in flight: each caller makes its next call as soon as the last is answered. */
async function load(call: Call, clients: number, calls: number): Promise<{ tokens: number; calls: number }> {
  let next = 0;
  let tokens = 0;
  const started = performance.now();
  const caller = async () => {
    while (next < calls) {
      const made = await call(next++);
      tokens += made;
    }
  };
  await Promise.all(Array.from({ length: clients }, caller));
  const seconds = (performance.now() - started) / 1000;
  return { tokens: tokens / seconds, calls: calls / seconds };
}

/**
 * The engine alone and the service in front of it under the same load: the same prompts, seeds and reply lengths, one
 * after the other, each warmed up first with `warmUp` calls. Callers, client and service share one thread; the engine samples in another.
 */
export async function benchClients(
  loads: readonly { clients: number; replyTokens: number }[],
): Promise<ClientsRow[]> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const engine = await createEmbeddedEngine();
  const service = await startService({ engine, dataFolder });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const textOf = (index: number) => `${index} the quick brown fox`;
  let replyTokens = 0;
  const request = (index: number) => ({
    model: benchModel,
    messages: [{ role: 'user' as const, content: textOf(index) }],
    seed: index,
    max_completion_tokens: replyTokens,
    ignore_eos: true,
  });
  const tokenizer = engine.tokenizer(benchModel);
  const special = (text: string) => tokenizer.special.get(text) ?? 0;
  const bare: Call = async (index) => {
    const prompt = [
      special('<|user|>'),
      ...tokenizer.encode(textOf(index)),
      special('<|end|>'),
      special('<|assistant|>'),
    ];
    const { tokens } = await engine.generate({
      weights: { baseModel: benchModel, folder: null },
      prompt,
      sampling: { ...plainSampling, ignoreEnd: true },
      seed: index,
      maxTokens: replyTokens,
      stopStrings: [],
      stopTokens: [],
      constraint: null,
      topLogprobs: 0,
      priority: 0,
      cacheSalt: null,
    });
    return tokens.length;
  };
  const whole: Call = async (index) =>
    (await client.chat.completions.create(request(index))).usage.completion_tokens;
  const streamed: Call = async (index) => {
    let tokens = 0;
    const stream = await client.chat.completions.create({
      ...request(index),
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) tokens += chunk.usage?.completion_tokens ?? 0;
    return tokens;
  };
  try {
    const rows: ClientsRow[] = [];
    for (const { clients, replyTokens: tokens } of loads) {
      replyTokens = tokens;
      // The code of a call gets several times faster over its first thousand runs.
      const calls = Math.max(48, clients * 4, tokens < 32 ? 2000 : 0);
      for (const call of [bare, whole, streamed]) await load(call, clients, calls >> 1);
      const [alone, answered, flowing] = [
        await load(bare, clients, calls),
        await load(whole, clients, calls),
        await load(streamed, clients, calls),
      ];
      rows.push({
        clients,
        replyTokens,
        bare: alone.tokens,
        whole: answered.tokens,
        completions: answered.calls,
        streamed: flowing.tokens,
      });
    }
    return rows;
  } finally {
    await client.close();
    await service.close();
    await engine.close();
    await rm(dataFolder, { recursive: true, force: true });
  }
}
