import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startService } from '../../../src/service/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { fromSource, outcomeOf } from '../../support/programs.ts';
import { CoinEngine } from '../../training/resume/coin-engine.ts';
import { startPlainService } from './plain-service.ts';

const child = fileURLToPath(new URL('../../training/resume/child.ts', import.meta.url));
const quick = { waitMs: 200 };
const askAgain = { ...quick, decision: 'ask_again' };

const folder = sharedFolder();
let engine: CoinEngine;
let service: Awaited<ReturnType<typeof startService>>;
let plain: Awaited<ReturnType<typeof startPlainService>>;
beforeAll(async () => {
  engine = new CoinEngine();
  service = await startService({ engine, dataFolder: join(folder, 'data'), apiKey: 'key' });
  plain = await startPlainService(service.url);
});
afterAll(async () => {
  await plain?.close();
  await service?.close();
});

/** Trains two steps in a process of its own, on a service that knows no idempotency keys. */
async function train(name: string, settings: object) {
  const runDirectory = join(folder, name);
  const options = {
    baseUrl: plain.url,
    apiKey: 'key',
    dialect: 'deployed',
    name,
    runDirectory,
    steps: 2,
    ...settings,
  };
  const outcome = await outcomeOf(spawn(process.execPath, [...fromSource, child, JSON.stringify(options)]));
  const record = JSON.parse(await readFile(join(runDirectory, 'jobs', 'step-0001.json'), 'utf8'));
  return { ...outcome, record };
}

test('a run killed after its request finds the checkpoint and requests nothing twice', {
  tags: ['long'],
}, async () => {
  const before = engine.trainings;
  const killed = await train('after', { kill: { call: 'create', at: 1, when: 'after' } });
  expect([killed.killed, killed.record.jobId]).toEqual([true, undefined]);
  const resumed = await train('after', { resume: true, lostJob: { waitMs: 20_000 } });
  expect(resumed.result).toMatchObject({ reason: 'finished', finalStep: 2 });
  expect(resumed.record).toMatchObject({ lost: { why: expect.any(String) }, outcome: { step: 2 } });
  expect(engine.trainings - before).toBe(2);
});

test('a run killed before its request, and again before the repeat, requests again only if the options say so', {
  tags: ['long'],
}, async () => {
  const before = engine.trainings;
  const killed = await train('before', { kill: { call: 'create', at: 1, when: 'before' } });
  expect([killed.killed, killed.record.jobId]).toEqual([true, undefined]);
  const again = { call: 'create', at: 0, when: 'before' };
  const decided = await train('before', { resume: true, lostJob: askAgain, kill: again });
  expect(decided.killed).toBe(true);
  expect(decided.record.idempotencyKey).not.toBe(killed.record.idempotencyKey);
  const undecided = await train('before', { resume: true, lostJob: quick });
  expect(undecided.errors).toContain('training_job_unknown');
  expect(undecided.record).toMatchObject({ lost: { isTold: true } });
  expect(engine.trainings - before).toBe(1);
  const asked = await train('before', { resume: true, lostJob: askAgain });
  expect(asked.result).toMatchObject({ reason: 'finished', finalStep: 2 });
  expect(engine.trainings - before).toBe(2);
});
