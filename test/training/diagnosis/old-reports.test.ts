import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineEnvironment } from '../../../src/index.ts';
import { readRun } from '../../../src/records.ts';
import { startFakeService } from '../../model/fake-service.ts';
import { temporaryFolder } from '../../support/files.ts';
import { realRun } from './real-run.ts';

const newFigures = [
  'comparison',
  'tools',
  'contextOverflows',
  'callsInFlight',
  'rewrittenHistories',
  'otherModels',
];

test('a run with reports of an earlier version resumes and is read, and new steps say why there is no signal', async () => {
  await using service = await startFakeService({ policy: ({ seed }) => ({ text: String(seed) }) });
  const runDirectory = join(await temporaryFolder(), 'run');
  const environment = defineEnvironment({
    name: 'old',
    scenario: z.object({}),
    rollout: async ({ model }) => (await generateText({ model: model.languageModel, prompt: 'a' })).text,
    rewards: { success: () => 1 },
  });
  const run = { environment, scenarios: [{}], policy: () => ({}), runDirectory, service };
  await realRun({ ...run, steps: 5 });

  const file = join(runDirectory, 'metrics.jsonl');
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  const old = lines.map((line) => {
    const entries = Object.entries(JSON.parse(line));
    return JSON.stringify(Object.fromEntries(entries.filter(([name]) => !newFigures.includes(name))));
  });
  await writeFile(file, `${old.join('\n')}\n`);

  const resumed = await realRun({ ...run, steps: 6, resume: true });
  expect(resumed.reports.map(({ comparison }) => comparison?.solved ?? null)).toEqual([
    ...[null, null, null, null, null],
    1,
  ]);
  expect(resumed.alarms).toMatchObject([{ kind: 'no_signal', cause: 'solved', step: 5 }]);
  const read = await (await readRun(runDirectory)).reports();
  expect(read).toEqual(resumed.reports);
  expect(read[0]).toMatchObject({ comparison: null, tools: {}, contextOverflows: 0, otherModels: {} });
});
