import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateText } from 'ai';
import { z } from 'zod';
import { createTinkerEngine } from '../../src/engines/tinker/index.ts';
import { TinkerApi } from '../../src/engines/tinker/tinker-api.ts';
import {
  createClient,
  defineEnvironment,
  ModelHandle,
  type RolloutModel,
  runGroups,
} from '../../src/index.ts';
import { plainSampling } from '../../src/learning/index.ts';
import { startService } from '../../src/service/index.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { head, machine, row, whole } from './table.ts';

/*
 * What each of our parts costs in front of a training server, beside the bare client that sends token ids:
 * `npm run bench:tinker`. The server is that of the tests, in a process of its own; it answers at once or after a
 * delay. Everything else is in this process: callers, harness, service and engine.
 */

const model = 'remote';
const maxTokens = 16;
const question = 'What is there to say about this?';
const rounds = 3;

/** Makes calls, `inFlight` at a time. */
type Work = (calls: number, inFlight: number) => Promise<unknown>;

const each =
  (call: (index: number) => Promise<unknown>): Work =>
  async (calls, inFlight) => {
    let next = 0;
    const caller = async () => {
      while (next < calls) await call(next++);
    };
    await Promise.all(Array.from({ length: inFlight }, caller));
  };

const rollouts =
  (client: ReturnType<typeof createClient>, rollout: Parameters<typeof environmentOf>[0]): Work =>
  async (calls, inFlight) => {
    const rolloutsPerGroup = Math.min(8, inFlight);
    const { counts } = await runGroups({
      environment: environmentOf(rollout),
      scenarios: Array.from({ length: calls / rolloutsPerGroup }, (_, id) => ({ id })),
      rolloutsPerGroup,
      model: new ModelHandle({ client, name: model }),
      concurrency: inFlight,
    });
    if (counts.completed !== calls) throw new Error(`not all completed: ${JSON.stringify(counts)}`);
  };

const environmentOf = (rollout: (model: RolloutModel, signal: AbortSignal) => Promise<number>) =>
  defineEnvironment({
    name: 'bench',
    scenario: z.object({ id: z.number() }),
    rollout: ({ model, signal }) => rollout(model, signal),
    rewards: { long: ({ outcome }) => outcome },
  });

async function kindsOf(url: string, folder: string) {
  const checkpoint = await generateCheckpoint(folder, 'qwen3');
  const engine = await createTinkerEngine({ url, checkpoint, id: model, rank: 4 });
  const service = await startService({ engine, dataFolder: await mkdtemp(join(folder, 'data-')) });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const api = new TinkerApi({ url });
  const messages = [{ role: 'user' as const, content: question }];
  const chat = { model, messages, max_tokens: maxTokens, return_token_ids: true, logprobs: true };
  const { prompt_token_ids: ids } = await client.chat.completions.create({ ...chat, seed: 1 });
  const prompt = ids ?? [];
  const weights = { baseModel: model, folder: null };
  const common = { topLogprobs: 0, priority: 0, cacheSalt: null, constraint: null, stopStrings: [] };
  const kinds: Record<string, Work> = {
    'the bare client': each((seed) =>
      api.sample({
        prompt: { chunks: [{ type: 'encoded_text', tokens: prompt }] },
        num_samples: 1,
        sampling_params: { max_tokens: maxTokens, temperature: 1, seed },
        base_model: '/models/base',
      }),
    ),
    'the engine': each((seed) =>
      engine.generate({
        ...common,
        ...{ weights, prompt, seed, maxTokens, stopTokens: [] },
        sampling: { ...plainSampling, ignoreEnd: true },
      }),
    ),
    'chats of the service': each((seed) =>
      client.chat.completions.create({ ...chat, seed, ignore_eos: true }),
    ),
    rollouts: rollouts(client, async ({ languageModel }, abortSignal) => {
      const text = [{ role: 'user' as const, content: [{ type: 'text' as const, text: question }] }];
      const { content } = await languageModel.doGenerate({
        prompt: text,
        maxOutputTokens: maxTokens,
        abortSignal,
      });
      return content.length;
    }),
    'rollouts with the AI SDK': rollouts(client, async ({ languageModel }, abortSignal) => {
      const settings = { model: languageModel, prompt: question, maxOutputTokens: maxTokens };
      return (await generateText({ ...settings, abortSignal })).text.length;
    }),
  };
  const close = async () => {
    await client.close();
    await service.close();
    await engine.close();
    await api.close();
  };
  return { kinds, close };
}

/** Milliseconds that a call takes, and of the processor in this process. */
async function measure(work: Work, calls: number, inFlight: number) {
  const before = process.cpuUsage();
  const started = performance.now();
  await work(calls, inFlight);
  const elapsedMs = performance.now() - started;
  const { user, system } = process.cpuUsage(before);
  return { wallMs: (elapsedMs * inFlight) / calls, cpuMs: (user + system) / 1000 / calls };
}

const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
const path = fileURLToPath(new URL('./tinker-process.ts', import.meta.url));
console.log(`${machine}\n`);
head(
  ...['answers after, ms', 'in flight', 'what', 'a call, ms', 'of the bare client'],
  ...['CPU of a call, ms', 'more than the bare client', 'calls/s'],
);
for (const delayMs of [0, 200]) {
  const child = fork(path, [String(delayMs)], { execArgv: [] });
  const [url] = await once(child, 'message');
  const { kinds, close } = await kindsOf(url, folder);
  // Code gets several times faster over its first runs.
  for (const work of Object.values(kinds)) await work(512, 32);
  for (const inFlight of [1, 32, 256]) {
    const calls = delayMs > 0 ? Math.max(4, inFlight) : Math.max(128, 2 * inFlight);
    const names = Object.keys(kinds);
    const figures = new Map(
      names.map((name) => [name, { wallMs: Number.POSITIVE_INFINITY, cpuMs: Number.POSITIVE_INFINITY }]),
    );
    // The kinds by turns, so that what else the machine does meets all of them.
    for (let round = 0; round < rounds; round++)
      for (const [name, work] of Object.entries(kinds)) {
        const { wallMs, cpuMs } = await measure(work, calls, inFlight);
        const least = figures.get(name);
        if (!least) continue;
        least.wallMs = Math.min(least.wallMs, wallMs);
        least.cpuMs = Math.min(least.cpuMs, cpuMs);
      }
    const bare = figures.get(names[0] as string);
    for (const [name, { wallMs, cpuMs }] of figures)
      row(
        ...[delayMs, inFlight, name, wallMs.toFixed(2), `${(wallMs / (bare?.wallMs ?? 1)).toFixed(2)}x`],
        ...[cpuMs.toFixed(2), (cpuMs - (bare?.cpuMs ?? 0)).toFixed(2), whole((1000 * inFlight) / wallMs)],
      );
  }
  await close();
  child.disconnect();
}
await rm(folder, { recursive: true, force: true });
