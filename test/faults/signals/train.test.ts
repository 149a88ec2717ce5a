import { join } from 'node:path';
import { generateText } from 'ai';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { createClient, defineEnvironment, type RunEvent, train } from '../../../src/index.ts';
import { startService } from '../../../src/service/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { door } from '../../support/scripted-engine.ts';
import { CoinEngine } from '../../training/resume/coin-engine.ts';
import { openLine } from './line.ts';

const folder = sharedFolder();
let service: Awaited<ReturnType<typeof startService>>;
let line: Awaited<ReturnType<typeof openLine>>;
const engine = new CoinEngine();

beforeAll(async () => {
  service = await startService({ engine, dataFolder: join(folder, 'data'), log: () => undefined });
  line = await openLine(service.url);
});
afterAll(async () => {
  await line?.close();
  await service?.close();
});

it('a stopped run ends within its grace, although the service is silent and an agent never returns', async () => {
  const client = createClient({ baseUrl: line.url, apiKey: service.apiKey });
  const held = door();
  const secondStep = Promise.withResolvers<void>();
  let rollouts = 0;
  let isStuck = true;
  const stop = new AbortController();
  engine.hold = async (place) => {
    if (place === 'train') await held.wait();
  };
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  const environment = defineEnvironment({
    name: 'coin toss',
    scenario: z.object({ id: z.number() }),
    rollout: async ({ scenario: { id }, model }) => {
      if (++rollouts > 6 && isStuck) {
        secondStep.resolve();
        await new Promise(() => undefined);
      }
      return (await generateText({ model: model.languageModel, prompt: `toss ${id}` })).text;
    },
    rewards: { success: ({ outcome }) => Number(outcome) },
  });
  const options = {
    environment,
    scenarios: [0, 1, 2, 3].map((id) => ({ id })),
    client,
    model: { project: 'signals', name: 'coins', baseModel: 'scripted-tiny' },
    steps: 2,
    groupsPerStep: 2,
    rolloutsPerGroup: 3,
    maxStaleness: 1,
    runDirectory: join(folder, 'run'),
  };
  const events: RunEvent['type'][] = [];
  const running = train({ ...options, signal: stop.signal, onEvent: ({ type }) => events.push(type) });
  await Promise.all([held.reached, secondStep.promise]);
  line.silence(true);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const asked = Promise.withResolvers<void>();
  const cancel = client.trainingJobs.cancel.bind(client.trainingJobs);
  vi.spyOn(client.trainingJobs, 'cancel').mockImplementation((...given) => {
    asked.resolve();
    return cancel(...given);
  });
  stop.abort();
  await asked.promise;
  await vi.advanceTimersByTimeAsync(10_001);
  vi.useRealTimers();
  expect(await running).toMatchObject({ reason: 'stopped', finalStep: 0, counts: { cancelled: 6 } });
  expect((await warned).message).toContain('could not be cancelled');
  expect(events.at(-1)).toBe('run_ended');
  line.silence(false);
  engine.hold = null;
  held.open();
  isStuck = false;
  const ended = await train({ ...options, resume: true });
  expect(ended).toMatchObject({ reason: 'finished', finalStep: 2, counts: { completed: 12 } });
  await client.close();
});
