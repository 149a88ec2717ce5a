import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { martingaleVersion, readVersion } from '../../src/util/version.ts';
import { temporaryFolder } from '../support/files.ts';

test('the version is that of package.json', async () => {
  expect(JSON.parse(await readFile('package.json', 'utf8'))).toMatchObject({ version: martingaleVersion });
});

test('a bundled program, which has no package.json of martingale beside it, can load it all the same', async () => {
  const file = pathToFileURL(join(await temporaryFolder(), 'package.json'));
  expect(readVersion(file)).toBe('unknown');
  await writeFile(file, '{"name":"my-agent","version":"7.0.0"}');
  expect(readVersion(file)).toBe('unknown');
});
