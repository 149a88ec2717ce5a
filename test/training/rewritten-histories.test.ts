import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText, type ModelMessage } from 'ai';
import { defineEnvironment, type StepReport, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { fromGroupRecord, readRun } from 'martingale/records';
import { type RunningService, startService } from 'martingale/service';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { Engine } from '../../src/engines/engine.ts';
import { createPlainView } from '../../src/progress/plain.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { sharedFolder } from '../support/files.ts';

const parent = sharedFolder();
let engine: Engine;
let service: RunningService;

beforeAll(async () => {
  const folder = await generateCheckpoint(parent, 'qwen3');
  engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder, id: 'generated' }] });
  service = await startService({ engine, dataFolder: join(parent, 'data') });
});

afterAll(async () => {
  await service?.close();
  await engine?.close();
});

/** A conversation of three turns, in which every reply has the given form. */
const talk = (regex: string) =>
  defineEnvironment({
    name: 'talk',
    scenario: z.object({}),
    rollout: async ({ model, signal }) => {
      const messages: ModelMessage[] = [];
      for (const question of ['first', 'second', 'third']) {
        messages.push({ role: 'user', content: question });
        const { response, text } = await generateText({
          model: model.languageModel,
          messages,
          providerOptions: { martingale: { structured_outputs: { regex } } },
          abortSignal: signal,
        });
        messages.push(...response.messages);
        if (question === 'third') return text;
      }
      return '';
    },
    rewards: { success: ({ outcome }) => Number(/^[ab]/.test(outcome)) },
  });

async function runOf(name: string, regex: string) {
  const lines: string[] = [];
  const reports: StepReport[] = [];
  const view = createPlainView({ write: (text) => lines.push(text) });
  const runDirectory = join(parent, name);
  await train({
    environment: talk(regex),
    scenarios: [{}],
    baseUrl: service.url,
    apiKey: service.apiKey,
    runDirectory,
    model: { project: 'talk', name, baseModel: 'generated' },
    seed: 1,
    steps: 2,
    groupsPerStep: 1,
    rolloutsPerGroup: 4,
    onEvent: (event) => {
      view.listen(event);
      if (event.type === 'step') reports.push(event);
    },
  });
  const summary: unknown = JSON.parse(await readFile(join(runDirectory, 'summary.json'), 'utf8'));
  return { reports, summary, text: lines.join(''), runDirectory };
}

test('a run tells how many histories began because the template rewrote a conversation', async () => {
  // The template of Qwen3 leaves out the reasoning of all replies before the last question.
  const { reports, summary, text, runDirectory } = await runOf(
    'reasons',
    '<think>\n[a-d]\n</think>\n\n[a-d]',
  );
  // In each of four rollouts, the second and the third turn begin a history.
  expect(reports.map(({ rewrittenHistories }) => rewrittenHistories)).toEqual([8, 8]);
  expect(summary).toMatchObject({ rewrittenHistories: 16 });
  expect(text).toMatch(/^1 of 2 steps .* 8 histories rewritten/m);
  expect(text).toMatch(/^finished · 16 histories rewritten by the chat template · /m);
  for await (const record of (await readRun(runDirectory)).groups(0))
    for (const { histories, observations } of fromGroupRecord(record).trajectories) {
      expect(histories).toHaveLength(3);
      // A resumed run counts those of stored rollouts.
      expect(observations.rewrittenHistories).toBe(2);
    }
});

test('without reasoning nothing is rewritten, and nothing is said', async () => {
  const { reports, summary, text } = await runOf('plain', '[a-d]{2}');
  expect(reports.map(({ rewrittenHistories }) => rewrittenHistories)).toEqual([0, 0]);
  expect(summary).toMatchObject({ rewrittenHistories: 0 });
  // The form of its replies was forced, so that the model has not learned it.
  const asked = 'structured_outputs {"regex":"[a-d]{2}"}';
  expect(reports.map(({ askedForms }) => askedForms)).toEqual([[asked], [asked]]);
  expect(summary).toMatchObject({ askedForms: [asked] });
  expect(text).toContain(`trained under ${asked}\nWhat a form forces is not learned: ask for it`);
  expect(text).not.toContain('rewritten');
});
