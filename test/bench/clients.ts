import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { plainSampling } from '../../src/learning/index.ts';
import { startService } from '../../src/service/index.ts';
import type { ChatLoad, ChatsDone } from './clients-load.ts';
import { benchModel } from './engine.ts';

/** What one kind of chat reached. */
export interface ChatSpeed {
  /** Sampled tokens per second. */
  tokens: number;
  calls: number;
  /** CPU time of a chat on the thread of the service, and on all threads of the callers' process, in milliseconds. */
  cpuMs: { service: number; callers: number };
}

export interface ClientsRow {
  clients: number;
  /** Tokens of each reply. */
  replyTokens: number;
  /** The engine alone, with as many callers in the thread of the service. */
  bare: ChatSpeed;
  /** Whole answers through HTTP. */
  whole: ChatSpeed;
  streamed: ChatSpeed;
}

const words = 'the quick brown fox';

type Load = Pick<ChatLoad, 'callers' | 'calls' | 'replyTokens'>;

/** What `work` reached, with the CPU time of the thread that it runs in. */
async function measure(calls: number, work: () => Promise<ChatsDone>): Promise<ChatSpeed> {
  const before = process.threadCpuUsage();
  const { tokens, seconds, cpuMs } = await work();
  const { user, system } = process.threadCpuUsage(before);
  const service = (user + system) / 1000 / calls;
  return { tokens: tokens / seconds, calls: calls / seconds, cpuMs: { service, callers: cpuMs / calls } };
}

function bareChats(engine: Engine): (load: Load) => Promise<ChatsDone> {
  const tokenizer = engine.tokenizer(benchModel);
  const special = (text: string) => tokenizer.special.get(text) ?? 0;
  return async ({ callers, calls, replyTokens }) => {
    let next = 0;
    let made = 0;
    const caller = async () => {
      while (next < calls) {
        const seed = next++;
        const text = tokenizer.encode(`${seed} ${words}`);
        const { tokens } = await engine.generate({
          weights: { baseModel: benchModel, folder: null },
          prompt: [special('<|user|>'), ...text, special('<|end|>'), special('<|assistant|>')],
          sampling: { ...plainSampling, ignoreEnd: true },
          seed,
          maxTokens: replyTokens,
          stopStrings: [],
          stopTokens: [],
          constraint: null,
          topLogprobs: 0,
          priority: 0,
          cacheSalt: null,
        });
        made += tokens.length;
      }
    };
    const started = performance.now();
    await Promise.all(Array.from({ length: callers }, caller));
    return { tokens: made, seconds: (performance.now() - started) / 1000, cpuMs: 0 };
  };
}

/**
 * The engine alone and the service in front of it under the same load: the same prompts, seeds and reply lengths, one
 * after the other, each warmed up first with half of the calls. The service and the engine's threads are in this
 * process, the callers of the service in another.
 */
export async function benchClients(
  loads: readonly { clients: number; replyTokens: number }[],
): Promise<ClientsRow[]> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const engine = await createEmbeddedEngine();
  const service = await startService({ engine, dataFolder });
  const path = fileURLToPath(new URL('./clients-load.ts', import.meta.url));
  // Without `tsx`, whose instrumented functions would cost the callers more.
  const child = fork(path, [service.url, service.apiKey], { execArgv: [] });
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`The callers ended with ${code}.`);
  });
  failed.catch(() => undefined);
  const chats = (isStreamed: boolean) => async (load: Load) => {
    child.send({ model: benchModel, text: words, isStreamed, ...load } satisfies ChatLoad);
    const [done] = await Promise.race([once(child, 'message'), failed]);
    return done;
  };
  const kinds = [bareChats(engine), chats(false), chats(true)] as const;
  try {
    const rows: ClientsRow[] = [];
    for (const { clients, replyTokens } of loads) {
      // The code of a call gets several times faster over its first thousand runs.
      const calls = Math.max(48, clients * 4, replyTokens < 32 ? 2000 : 0);
      const load = { callers: clients, calls, replyTokens };
      for (const chat of kinds) await chat({ ...load, calls: calls >> 1 });
      const [bare, whole, streamed] = [
        await measure(calls, () => kinds[0](load)),
        await measure(calls, () => kinds[1](load)),
        await measure(calls, () => kinds[2](load)),
      ];
      rows.push({ clients, replyTokens, bare, whole, streamed });
    }
    return rows;
  } finally {
    child.kill();
    await service.close();
    await engine.close();
    await rm(dataFolder, { recursive: true, force: true });
  }
}
