// A service in its own process: `service.ts <JSON of ServicePlan>`. Sends its address, and its figures on request.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemCheckSchema } from '../../../src/contract/health.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine } from '../../../src/engines/engine.ts';
import { type StartServiceOptions, startService } from '../../../src/service/index.ts';
import { DelayedEngine } from './delayed-engine.ts';
import { Meter, type ProcessFigures } from './meter.ts';

export interface ServicePlan {
  /** `embedded`, or an engine that answers with `tokens` tokens after `delayMs`, `slots` at a time. */
  engine:
    | { kind: 'embedded'; largestBatch?: number }
    | { kind: 'delayed'; delayMs: number; places: number; tokens: number };
  options?: Partial<StartServiceOptions>;
}

export interface ServiceFigures extends ProcessFigures {
  /** Number of answers since the start, by status. */
  statuses: Record<string, number>;
  /** Age of the oldest unanswered request, in milliseconds. */
  oldestMs: number;
  /** Replies in flight, and their maximum. */
  inHand: number;
  mostInHand: number;
}

export type FromService =
  | { type: 'ready'; url: string; apiKey: string }
  | { type: 'figures'; figures: ServiceFigures }
  | { type: 'live'; heap: number };

const plan: ServicePlan = JSON.parse(process.argv[2] ?? '');
const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-load-'));
async function openEngine(): Promise<Engine> {
  if (plan.engine.kind === 'delayed') return new DelayedEngine(plan.engine);
  const { kind: _, ...options } = plan.engine;
  return createEmbeddedEngine({ ...options, threads: 1 });
}
const engine = await openEngine();
const statuses: Record<string, number> = {};
let isClosing = false;
const service = await startService({
  ...plan.options,
  engine,
  dataFolder,
  log: ({ level, event, status, ...rest }) => {
    if (event === 'request' && rest.method === 'POST')
      statuses[String(status)] = (statuses[String(status)] ?? 0) + 1;
    else if (level !== 'info' && !isClosing) console.error(JSON.stringify({ level, event, ...rest }));
  },
});
let mostInHand = 0;
const meter = new Meter();

/** The load that the service reports publicly. */
async function look(): Promise<{ inHand: number; oldestMs: number }> {
  const answer = await fetch(`${service.url}/v1/system-check`, {
    headers: { authorization: `Bearer ${service.apiKey}` },
  });
  const { inference_queue: queue } = systemCheckSchema.parse(await answer.json());
  mostInHand = Math.max(mostInHand, queue.in_hand ?? 0);
  return { inHand: queue.in_hand ?? 0, oldestMs: queue.oldest_ms ?? 0 };
}

async function keepLooking(): Promise<void> {
  while (!isClosing) {
    await look().catch((error: unknown) => {
      if (!isClosing) throw error;
    });
    await sleep(50);
  }
}
void keepLooking();
const say = (message: FromService) => process.send?.(message);
process.on('message', async (message) => {
  if (message === 'live') {
    globalThis.gc?.();
    return void say({ type: 'live', heap: process.memoryUsage().heapUsed });
  }
  if (message === 'figures') {
    const { inHand, oldestMs } = await look();
    return void say({
      type: 'figures',
      figures: { ...meter.read(), statuses, oldestMs, inHand, mostInHand },
    });
  }
  isClosing = true;
  await service.close();
  await engine.close();
  await rm(dataFolder, { recursive: true, force: true });
  process.disconnect();
});
say({ type: 'ready', url: service.url, apiKey: service.apiKey });
