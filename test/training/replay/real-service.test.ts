import { join } from 'node:path';
import { generateText, streamText } from 'ai';
import { defineEnvironment, openModel, type RolloutGroup, runGroups } from 'martingale';
import { replayModel, replayStep } from 'martingale/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { baseModel, type RealService, startRealService } from '../../model/real-service.ts';
import { sharedFolder } from '../../support/files.ts';
import { writeRun } from './stored-run.ts';

let service: RealService;
const folder = sharedFolder();

beforeAll(async () => {
  service = await startRealService();
});
afterAll(async () => {
  await service.close();
});

/** A conversation of three turns, streamed or not. */
const environment = defineEnvironment({
  name: 'echo',
  scenario: z.object({ word: z.string(), streamed: z.boolean() }),
  rollout: async ({ scenario: { word, streamed }, model }) => {
    const messages: { role: 'user' | 'assistant'; content: string }[] = [];
    for (let turn = 0; turn < 3; turn++) {
      messages.push({ role: 'user', content: `${word} ${turn}` });
      const asked = { model: model.languageModel, messages, maxOutputTokens: 12, temperature: 1 };
      const text = streamed ? await streamText(asked).text : (await generateText(asked)).text;
      messages.push({ role: 'assistant', content: text });
    }
    return messages.map(({ content }) => content).join();
  },
  rewards: { length: ({ outcome }) => outcome.length },
});

const bodies = (groups: readonly RolloutGroup[]) =>
  groups.map((group) =>
    group
      .toTrajectoryGroup()
      .toBody()
      .trajectories.map((body) => ({ ...body, start_time: null })),
  );

test('rollouts on the real service replay identically from their calls and their trajectories', async () => {
  const model = await openModel({ client: service.client, project: 'p', name: 'n', baseModel });
  const file = join(folder, 'calls.jsonl');
  const asked = {
    environment,
    scenarios: [
      { word: 'tea', streamed: false },
      { word: 'ink', streamed: true },
    ],
    rolloutsPerGroup: 3,
    seed: 9,
  };
  const { groups } = await runGroups({ ...asked, model: model.recordingTo(file) });
  expect(groups.flatMap(({ trajectories }) => trajectories)).toHaveLength(6);

  const replayed = await runGroups({ ...asked, model: (await replayModel({ file })).model, concurrency: 2 });
  expect(bodies(replayed.groups)).toEqual(bodies(groups));

  const runDirectory = join(folder, 'run');
  await writeRun(runDirectory, environment.name, groups);
  const again = await replayStep({ runDirectory, step: 0, environment });
  expect(again.differences).toEqual([]);
  expect(bodies(again.groups)).toEqual(bodies(groups));
});
