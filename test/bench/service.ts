import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '../../src/client/index.ts';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { startService } from '../../src/service/index.ts';
import { benchModel, replyTokens } from './engine.ts';

export interface ServiceRow {
  threads: number;
  batch: number;
  decoding: number;
  /** Chat completions a second of one constrained decision each: what the way to the engine and back costs. */
  calls: number;
}

/** Sampled tokens a second through HTTP, with `batch` chat completions of up to 64 tokens side by side. */
export async function benchService(threads: number, batches: number[]): Promise<ServiceRow[]> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const engine = await createEmbeddedEngine({ threads, samplerThreads: threads });
  const service = await startService({ engine, dataFolder });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const complete = (index: number, short: boolean) =>
    client.chat.completions.create({
      model: benchModel,
      messages: [{ role: 'user', content: `${index} the quick brown fox` }],
      seed: index,
      max_completion_tokens: replyTokens,
      ...(short ? { structured_outputs: { choice: ['a', 'b'] } } : {}),
    });
  const measure = async (batch: number, tokens: number, short: boolean) => {
    const rounds = Math.max(1, Math.round(tokens / (batch * (short ? 1 : replyTokens))));
    let made = 0;
    let calls = 0;
    const started = performance.now();
    for (let round = 0; round < rounds; round++) {
      const replies = await Promise.all(
        Array.from({ length: batch }, (_, index) => complete(round * batch + index, short)),
      );
      for (const reply of replies) made += reply.usage.completion_tokens;
      calls += batch;
    }
    const seconds = (performance.now() - started) / 1000;
    return { tokens: made / seconds, calls: calls / seconds };
  };
  try {
    await measure(8, 1024, false);
    const rows: ServiceRow[] = [];
    for (const batch of batches)
      rows.push({
        threads,
        batch,
        decoding: (await measure(batch, Math.max(2048, batch * replyTokens), false)).tokens,
        calls: (await measure(batch, Math.max(500, batch * 4), true)).calls,
      });
    return rows;
  } finally {
    await client.close();
    await service.close();
    await engine.close();
    await rm(dataFolder, { recursive: true, force: true });
  }
}
