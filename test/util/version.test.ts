import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { martingaleVersion, readVersion } from '../../src/util/version.ts';
import { temporaryFolder } from '../support/files.ts';

test('the version is the one in package.json', async () => {
  expect(JSON.parse(await readFile('package.json', 'utf8'))).toMatchObject({ version: martingaleVersion });
});

test('loads in a bundled program without a package.json of martingale', async () => {
  const file = pathToFileURL(join(await temporaryFolder(), 'package.json'));
  expect(readVersion(file)).toBe('unknown');
  await writeFile(file, '{"name":"my-agent","version":"7.0.0"}');
  expect(readVersion(file)).toBe('unknown');
});
