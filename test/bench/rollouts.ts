import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { generateText } from 'ai';
import {
  type Client,
  createClient,
  defineEnvironment,
  type Environment,
  ModelHandle,
  runGroups,
} from 'martingale';
import { z } from 'zod';

/** Milliseconds that the service takes for an answer. */
export const delayMs = 200;

export interface RolloutsRow {
  inFlight: number;
  what: string;
  /** Calls per second. Each is one rollout. */
  perSecond: number;
  /** Relative to the client alone. */
  share: number;
  /** Event-loop delay in milliseconds, less the sampling interval of 1 ms. */
  lag: { p50: number; p99: number };
  /** Memory of a waiting rollout, and of a finished one that is still referenced, in KiB. */
  kib: { waiting: number; kept: number };
  /** Calls that are at the service at once; the others wait for a connection. */
  atService: number;
}

type Work = (options: {
  client: Client;
  calls: number;
  inFlight: number;
  signal?: AbortSignal;
}) => Promise<unknown>;

const request = {
  model: 'local/p/bench:step1',
  messages: [{ role: 'user' as const, content: 'What is there to say about this?' }],
  return_token_ids: true,
  logprobs: true,
};

const scenario = z.object({ id: z.number() });

/** A one-step agent with the AI SDK, as in most environments. */
const withAiSdk = defineEnvironment({
  name: 'bench',
  scenario,
  rollout: async ({ model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: 'What is there to say about this?',
      abortSignal: signal,
    });
    return text;
  },
  rewards: { long: ({ outcome }) => outcome.length },
});

/** Calls the model without the AI SDK, to measure our own cost. */
const withoutAiSdk = defineEnvironment({
  name: 'bench',
  scenario,
  rollout: async ({ model, signal }) => {
    const { content } = await model.languageModel.doGenerate({
      prompt: [{ role: 'user', content: [{ type: 'text', text: 'What is there to say about this?' }] }],
      abortSignal: signal,
    });
    return content.length;
  },
  rewards: { long: ({ outcome }) => outcome },
});

const bare: Work = async ({ client, calls, inFlight, signal }) => {
  let next = 0;
  const kept: unknown[] = [];
  const caller = async () => {
    while (next++ < calls) kept.push(await client.chat.completions.create(request, { signal }));
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  return kept;
};

const rollouts =
  <Outcome>(environment: Environment<typeof scenario, Outcome>): Work =>
  async ({ client, calls, inFlight, signal }) => {
    const { groups, counts } = await runGroups({
      environment,
      scenarios: Array.from({ length: calls / 8 }, (_, id) => ({ id })),
      rolloutsPerGroup: 8,
      model: new ModelHandle({ client, name: request.model }),
      concurrency: inFlight,
      ...(signal ? { signal } : {}),
    });
    if (!signal && counts.completed !== calls)
      throw new Error(`not all completed: ${JSON.stringify(counts)}`);
    return groups;
  };

const kinds: [string, Work][] = [
  ['the client alone', bare],
  ['rollouts', rollouts(withoutAiSdk)],
  ['rollouts with the AI SDK', rollouts(withAiSdk)],
];

/**
 * Rollouts of one model call each against a service in another process that answers after a fixed delay, beside the
 * bare client doing the same calls with as many in flight.
 */
export async function benchRollouts(counts: readonly number[]): Promise<RolloutsRow[]> {
  await using service = await startDelayedService(delayMs);
  await using silent = await startDelayedService(2 ** 31 - 1);
  const rows: RolloutsRow[] = [];
  for (const inFlight of counts) {
    let alone = 0;
    for (const [what, work] of kinds) {
      const speed = await measureSpeed(service, inFlight, work);
      alone ||= speed.perSecond;
      const { waiting, atService } = await measureWaiting(silent, inFlight, work);
      const { perSecond, lag, kept } = speed;
      const row = { inFlight, what, perSecond, share: perSecond / alone, lag };
      rows.push({ ...row, kib: { waiting, kept }, atService });
    }
  }
  return rows;
}

interface DelayedService extends AsyncDisposable {
  connect(): Client;
  inHand(): Promise<number>;
}

async function startDelayedService(milliseconds: number): Promise<DelayedService> {
  const path = fileURLToPath(new URL('./delayed-service.ts', import.meta.url));
  const child = spawn(process.execPath, [path, String(milliseconds)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [port] = await once(createInterface(child.stdout), 'line');
  const baseUrl = `http://127.0.0.1:${port}`;
  return {
    connect: () => createClient({ baseUrl, apiKey: 'key' }),
    inHand: async () => Number(await (await fetch(baseUrl)).text()),
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await once(child, 'exit');
    },
  };
}

/** After one wave to warm up, four waves, and at least 2,000 calls. */
async function measureSpeed(service: DelayedService, inFlight: number, work: Work) {
  const client = service.connect();
  const calls = Math.max(4 * inFlight, 2_000);
  await work({ client, calls: inFlight, inFlight });
  const before = settledBytes();
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const begun = performance.now();
  const kept = await work({ client, calls, inFlight });
  const perSecond = (calls / (performance.now() - begun)) * 1000;
  delays.disable();
  const bytes = settledBytes() - before;
  const delayAt = (percentile: number) => Math.max(0, delays.percentile(percentile) / 1e6 - 1);
  await client.close();
  return {
    perSecond,
    kept: kept ? bytes / calls / 1024 : 0,
    lag: { p50: delayAt(50), p99: delayAt(99) },
  };
}

/** Memory of a waiting rollout, measured while all wait for an answer that never comes. */
async function measureWaiting(service: DelayedService, inFlight: number, work: Work) {
  const client = service.connect();
  const stop = new AbortController();
  const before = settledBytes();
  const waiting = work({ client, calls: inFlight, inFlight, signal: stop.signal }).catch(() => undefined);
  let atService = 0;
  // Until no more arrive.
  for (let last = -1; last !== atService || atService === 0; ) {
    last = atService;
    await pause(500);
    atService = await service.inHand();
  }
  const bytes = settledBytes() - before;
  stop.abort(new Error('measured'));
  await waiting;
  await client.close();
  while ((await service.inHand()) > 0) await pause(50);
  return { waiting: bytes / inFlight / 1024, atService };
}

let collect: (() => void) | undefined;

/** Heap size after garbage collection. */
function settledBytes(): number {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc');
  }
  collect?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
