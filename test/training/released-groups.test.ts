import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import { defineEnvironment, openModel, runGroups } from 'martingale';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { RunDirectory, runFiles } from '../../src/training/run-directory.ts';
import { rolloutFigures } from '../../src/training/step-report.ts';
import { startFakeService } from '../model/fake-service.ts';
import { temporaryFolder } from '../support/files.ts';

const environment = defineEnvironment({
  name: 'echo',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model }) =>
    (await generateText({ model: model.languageModel, prompt: `say ${id}` })).text,
  rewards: { length: ({ outcome }) => outcome.length },
});

it('groups of released trajectories are written and read from the journal, in the order of the step', async () => {
  const service = await startFakeService({ policy: () => ({ text: 'hello' }) });
  await using _ = service;
  const model = await openModel({ client: service.client, project: 'p', name: 'm', baseModel: 'b' });
  const { groups } = await runGroups({
    ...{ environment, scenarios: [{ id: 0 }, { id: 1 }, { id: 2 }], rolloutsPerGroup: 2 },
    model,
  });
  const path = join(await temporaryFolder(), 'run');
  const directory = await RunDirectory.create(path);
  await directory.write(runFiles.config, {});
  // They end in another order, and a later record of a group counts.
  const [first, second, third] = groups;
  if (!first || !second || !third) throw new Error('groups are missing');
  for (const group of [third, first.withRollouts([]), second, first])
    await directory.appendToJournal(0, group);
  const whole = await directory.writeTrajectories('whole', groups);
  directory.release();

  const again = await RunDirectory.resume(path);
  const found = await again.readJournal(0);
  const kept = groups.map(({ index }) => found.get(index) ?? first);
  const signals = kept.map((group) => group.toTrajectoryGroup().hasSignal);
  const bodies = kept.map((group) => group.toTrajectoryGroup().toBody());
  const figures = rolloutFigures(kept);
  for (const group of kept) group.release();
  expect(kept.map((group) => group.toTrajectoryGroup().hasSignal)).toEqual(signals);
  expect(rolloutFigures(kept)).toEqual(figures);
  const left = kept.flatMap(({ rollouts }) =>
    rollouts.map((rollout) => ('outcome' in rollout ? rollout.outcome : null)),
  );
  expect(left).toEqual(Array.from({ length: 6 }, () => undefined));
  expect(kept.flatMap(({ trajectories }) => trajectories.flatMap(({ choices }) => choices))).toHaveLength(6);
  expect(
    JSON.stringify(kept.flatMap(({ trajectories }) => trajectories.map(({ choices }) => choices))),
  ).not.toMatch(/token|hello/);
  expect(() => kept[0]?.toTrajectoryGroup().toBody()).toThrow(/was released: its conversations are on disk/);
  const released = await again.writeTrajectories('released', kept, 0);
  expect(await readFile(join(path, released), 'utf8')).toBe(await readFile(join(path, whole), 'utf8'));
  for (const [index, body] of bodies.entries())
    expect((await again.readGroup(0, index)).toTrajectoryGroup().toBody()).toEqual(body);
  await expect(again.readGroup(0, 7)).rejects.toThrow('has no record of group 7');
  again.release();
});
