import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/files.ts';
import { type FaultMode, type FaultOrder, type FaultPoint, underFaults } from '../driver/fault.ts';
import { leftovers, strayFiles, useAll } from './scenario.ts';
import { start } from './started.ts';

const codes: [FaultMode, string][] = [
  ['ENOSPC', 'storage_full'],
  ['EROFS', 'storage_read_only'],
  ['EIO', 'storage_failed'],
  ['EMFILE', 'too_many_files'],
  ['EACCES', 'storage_read_only'],
];

/** SQLite reports both as a file that cannot be opened. */
const expectedCode = (name: string, mode: FaultMode, code: string) =>
  name.startsWith('commit') && (mode === 'EMFILE' || mode === 'EACCES') ? 'storage_failed' : code;

/** Requests with which the scenario observes its jobs. */
const ofSystemCheck = (name: string) => name === 'commit schema' || name.endsWith(' write-check');

/**
 * Steps whose failure the service survives: what should have been removed is removed at the next start, and a repeat
 * of a request whose answer was not stored finds the work done.
 */
const tolerated = (name: string) =>
  /^(rm|unlink|rmdir) /.test(name) ||
  name === 'commit update idempotency_keys' ||
  // Of a deleted model.
  /^commit delete (events|groups|jobs|logs|idempotency_keys|deleted_models)$/.test(name);

/** Fails the named steps of the service that `modesOf` gives an error for. */
async function failsAndGoesOn(modesOf: (index: number) => typeof codes): Promise<void> {
  const folder = await temporaryFolder();
  const dataFolder = join(folder, 'data');
  const [journal, orders] = [join(folder, 'journal'), join(folder, 'orders')];
  const give = (order: FaultOrder) => writeFileSync(orders, JSON.stringify(order));
  const lift = () => rmSync(orders, { force: true });
  const service = await start(dataFolder, underFaults({ root: dataFolder, journal, orders }));
  const stepsSince = (bytes: number): FaultPoint[] =>
    readFileSync(journal, 'utf8')
      .slice(bytes)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  const lengthNow = () => readFileSync(journal, 'utf8').length;

  const before = lengthNow();
  expect(await useAll(service, 'calm', lift)).toEqual([]);
  const steps = stepsSince(before).map(({ name }) => name);
  const names = [...new Set(steps)].filter((name) => !ofSystemCheck(name)).sort();
  expect(names.length).toBeGreaterThan(20);

  let runs = 0;
  for (const [index, name] of names.entries()) {
    for (const [mode, code] of modesOf(index)) {
      const begun = lengthNow();
      const left = leftovers(dataFolder);
      give({ mode, name });
      const refusals = await useAll(service, `m${runs++}`, lift);
      lift();
      const what = `${mode} at ${name}`;
      expect(
        stepsSince(begun).map((step) => step.name),
        what,
      ).toContain(name);
      for (const refusal of refusals) expect(refusal.code, what).toBe(expectedCode(name, mode, code));
      if (tolerated(name)) continue;
      expect(refusals, what).toHaveLength(1);
      expect(leftovers(dataFolder), what).toEqual(left);
    }
  }
  // All of them at once.
  give({ mode: 'ENOSPC' });
  expect(await useAll(service, 'all', lift)).toEqual([{ of: 'model', code: 'storage_full' }]);
  expect((await service.call('GET', '/v1/system-check')).status).toBe(200);
  expect(service.log.filter(({ event }) => event === 'uncaught')).toEqual([]);
  await service.stop();

  const again = await start(dataFolder);
  expect(await strayFiles(again, dataFolder)).toEqual([]);
  expect((await again.call('GET', '/v1/system-check')).status).toBe(200);
}

const oneOf = (index: number) => codes.slice(index % codes.length).slice(0, 1);
/** A full disk, and one of the other ways. */
const twoOf = (index: number) => [...codes.slice(0, 1), ...codes.slice(1 + (index % 4)).slice(0, 1)];

test('a durable step that fails gives a 503 or a waiting job, and the service recovers when it works again', () =>
  failsAndGoesOn((index) => (index % 6 === 0 ? oneOf(index / 6) : [])));

test(
  'each durable step, failing in two ways, gives a 503 or a waiting job, and the service recovers when it works again',
  {
    tags: ['long'],
  },
  () => failsAndGoesOn(twoOf),
);
