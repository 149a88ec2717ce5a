import { mkdir, rename, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { EvaluationDirectory, type EvaluationHeader } from '../../../src/evaluation/evaluation-directory.ts';
import { RunError } from '../../../src/index.ts';
import { RolloutGroup } from '../../../src/rollout/index.ts';
import { RunDirectory, runFiles } from '../../../src/training/run-directory.ts';
import { temporaryFolder } from '../../support/files.ts';

let folder: string;
beforeEach(async () => {
  folder = await temporaryFolder();
});

const groupOf = (index: number) =>
  new RolloutGroup({ index, scenario: { id: index }, rollouts: [], droppedBecause: null });

test('nothing is written after a group that could not be stored, and a resumed run reads the groups before it', async () => {
  const directory = await RunDirectory.create(join(folder, 'run'));
  await directory.write(runFiles.config, {});
  const journal = join(folder, 'run', 'trajectories', 'step-0001.journal.jsonl');
  await directory.appendToJournal(0, groupOf(0));
  // A folder at the file's path makes the write fail as on a full disk.
  await mkdir(journal);
  await expect(directory.appendToJournal(1, groupOf(0))).rejects.toThrow(RunError);
  await rmdir(journal);
  await expect(directory.appendToJournal(1, groupOf(1))).rejects.toThrow(
    /step-0001.journal.jsonl could not be written/,
  );
  directory.release();
  const again = await RunDirectory.resume(join(folder, 'run'));
  expect([...(await again.readJournal(0)).keys()]).toEqual([0]);
  expect((await again.readJournal(1)).size).toBe(0);
  await again.appendToJournal(1, groupOf(1));
  expect([...(await again.readJournal(1)).keys()]).toEqual([1]);
  again.release();
});

const header: EvaluationHeader = {
  ...{ environment: 'coins', policy: 'local/coins/one:step0', seed: 0, rolloutsPerScenario: 1 },
  ...{ temperature: 0, sampling: {}, groupStrategy: null, scenarios: 2, scenarioKeys: 'two' },
  rewards: {},
};

test('the same holds for the folder of an evaluation', async () => {
  const path = join(folder, 'evaluation');
  const directory = await EvaluationDirectory.open(path, header);
  await directory.append(groupOf(0));
  const groups = join(path, 'groups.jsonl');
  await rename(groups, `${groups}.aside`);
  await mkdir(groups);
  await expect(directory.append(groupOf(1))).rejects.toThrow(RunError);
  await rmdir(groups);
  await rename(`${groups}.aside`, groups);
  await expect(directory.append(groupOf(1))).rejects.toThrow(/groups.jsonl could not be written/);
  expect([...(await EvaluationDirectory.open(path, header)).finished.keys()]).toEqual([0]);
});

test('a run whose lock cannot be created says so', async () => {
  await mkdir(join(folder, 'run', 'run.lock'), { recursive: true });
  await expect(RunDirectory.resume(join(folder, 'run'))).rejects.toThrow(
    /run.lock could not be written: unable to open/,
  );
});
