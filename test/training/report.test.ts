import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import { defineEnvironment, type RunEvent, train } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { startFakeService } from '../model/fake-service.ts';
import { temporaryFolder } from '../support/files.ts';

/** Trains a step with credited calls. The service confirms the credit or does not. */
async function credited(gradientStep: Record<string, number>) {
  let calls = 0;
  await using service = await startFakeService({
    policy: () => ({ text: String(calls++ % 2) }),
    gradientSteps: [gradientStep],
  });
  const environment = defineEnvironment({
    name: 'credited',
    scenario: z.object({}),
    rollout: async ({ model }) => (await generateText({ model: model.languageModel, prompt: 'a' })).text,
    rewards: { right: ({ outcome }) => Number(outcome) },
    credit: ({ reward, calls }) => calls.map(() => reward),
  });
  const runDirectory = join(await temporaryFolder(), 'run');
  const events: RunEvent[] = [];
  const { reports } = await train({
    environment,
    scenarios: [{}],
    client: service.client,
    model: { project: 'p', name: 'n', baseModel: 'tiny' },
    steps: 1,
    groupsPerStep: 1,
    rolloutsPerGroup: 2,
    concurrency: 1,
    runDirectory,
    onEvent: (event) => events.push(event),
  });
  return {
    credit: reports[0]?.credit,
    events,
    written: await readFile(join(runDirectory, 'events.jsonl'), 'utf8'),
  };
}

test('a report says whether the job used the credit of calls; an alarm reports unused credit', async () => {
  expect((await credited({ loss: 1, num_credited_choices: 2 })).credit).toBe('used');
  const { credit, events, written } = await credited({ loss: 1 });
  expect(credit).toBe('not_confirmed');
  expect(events).toContainEqual(expect.objectContaining({ type: 'alarm', kind: 'credit_unused', step: 0 }));
  expect(written).toContain('"credit_unused"');
});
