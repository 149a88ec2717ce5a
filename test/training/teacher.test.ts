import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText, Output } from 'ai';
import { defineEnvironment, type ModelHandle, openModel, type RunEvent, sft, train } from 'martingale';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { baseModel, type RealService, startRealService } from '../model/real-service.ts';

let service: RealService;
/** It says heads. */
let teacher: ModelHandle;
beforeAll(async () => {
  service = await startRealService();
  const model = await openModel({ client: service.client, project: 'coins', name: 'teacher', baseModel });
  const structured_outputs = { choice: ['heads', 'tails', 'edge'] };
  const messages = [
    { role: 'user' as const, content: 'toss' },
    { role: 'assistant' as const, content: 'heads' },
  ];
  const examples = Array.from({ length: 16 }, () => ({ messages, structured_outputs }));
  ({ model: teacher } = await sft({ model, examples, batchSize: 2, learningRate: 3e-3, progress: false }));
});
afterAll(() => service?.close());

/** Nothing is paid for. */
const environment = defineEnvironment({
  name: 'toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ model, signal }) => {
    const output = Output.choice({ options: ['heads', 'tails', 'edge'] });
    const call = { model: model.languageModel, prompt: 'toss', output, abortSignal: signal };
    return (await generateText(call)).output;
  },
  rewards: { success: { weight: 0, reward: ({ outcome }) => Number(outcome === 'heads') } },
});

const settings = (name: string) => ({
  environment,
  scenarios: [0, 1, 2, 3].map((id) => ({ id })),
  client: service.client,
  model: { project: 'coins', name, baseModel },
  ...{ steps: 3, groupsPerStep: 4, rolloutsPerGroup: 1, config: { learning_rate: 1e-3 }, seed: 3 },
  ...{ runDirectory: join(service.folder, name), progress: false as const },
});

describe('train() with a teacher', () => {
  test('learns without rewards, and tells the distance; resumed, it does the same', async () => {
    const events: RunEvent[] = [];
    const options = { ...settings('student'), teacher: { model: teacher }, rolloutsPerGroup: 2, steps: 12 };
    const onEvent = (event: RunEvent) => events.push(event);
    const { reports } = await train({ ...options, onEvent });
    const distances = reports.map(({ klReference }) => klReference ?? Number.NaN);
    expect(distances[0]).toBeGreaterThan(0.5);
    expect(Math.abs(distances.at(-1) ?? 1)).toBeLessThan(0.25);
    expect(reports.at(-1)).toMatchObject({ success: 1, groups: 4, groupsWithSignal: 4, reward: 0 });
    expect(events.filter(({ type }) => type === 'alarm')).toEqual([]);
    const config = JSON.parse(await readFile(join(options.runDirectory, 'config.json'), 'utf8'));
    expect(config.teacher).toEqual({ model: teacher.name, weight: 1 });
    const other = { ...options, ...settings('stopped'), rolloutsPerGroup: 2 };
    await train(other);
    const resumed = await train({ ...other, steps: 5, resume: true });
    expect(resumed.reports.map(({ klReference }) => klReference)).toEqual(distances.slice(0, 5));
    await expect(train({ ...options, resume: true, teacher: { model: 'martingale-small' } })).rejects.toThrow(
      /`teacher` was .*coins\/teacher:step1.* and is .*martingale-small/,
    );
  });

  test('may have groups of one rollout, and a teacher of another size', async () => {
    const { reports, finalStep } = await train({
      ...settings('single'),
      teacher: { model: 'martingale-small', weight: 0.5 },
    });
    expect([reports.length, finalStep]).toEqual([3, 3]);
  });

  test('is refused before the first rollout if the service has no such teacher', async () => {
    const options = { ...settings('nobody'), teacher: { model: 'local/coins/nobody-else:step3' } };
    await expect(train(options)).rejects.toThrow(
      /`teacher.model` is "local\/coins\/nobody-else:step3".*none/,
    );
  });

  test.each([
    [{ teacher: { model: 'm', weight: 0 } }, /`teacher.weight` is 0. Pass a number above 0/],
    [{ teacher: { model: 3 } }, /`teacher.model` is 3/],
    [{ teacher: { model: 'm', wieght: 1 } }, /wieght/],
    [{ teacher: { model: 'm' }, config: { kl_penalty_coef: 1 } }, /`config.kl_penalty_coef` \(1\) are two/],
    [{ teacher: { model: 'm' }, rolloutsPerGroup: 0 }, /`rolloutsPerGroup` is 0/],
    [{}, /environment "toss" has a weight other than 0, so there is nothing to learn from.*`teacher`/],
  ])('checks the options: %j', async (more, message) => {
    const options = settings('checked');
    Object.assign(options, more);
    await expect(train(options)).rejects.toThrow(message);
  });
});
