import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { keyTable } from '../../src/cli/keys.ts';
import { startService } from '../../src/service/index.ts';
import { command } from '../support/command.ts';
import { temporaryFolder } from '../support/files.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';

/** `martingale keys ...` */
async function keys(...words: string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  const { code, ...said } = await command(['keys', ...words]);
  return { status: code, ...said };
}

describe('martingale keys', () => {
  test('creates a key that a running service accepts at once, lists it, and revokes it', async () => {
    const dataFolder = await temporaryFolder();
    const service = await startService({ engine: new ScriptedEngine(), dataFolder });
    onTestFinished(() => service.close());
    const created = await keys('create', '--name', 'laptop', '--data', dataFolder);
    const key = created.stdout.trim();
    expect(key).toMatch(/^mg-[0-9a-f]{16}-[\w-]{43}$/);
    expect(created.stderr).not.toContain(key);
    const id = key.slice(3, 19);
    const status = async () =>
      (await fetch(`${service.url}/v1/health`, { headers: { authorization: `Bearer ${key}` } })).status;
    expect(await status()).toBe(200);
    const list = await keys('list', '--data', dataFolder);
    expect(list.stdout).toMatch(new RegExp(`${id}  laptop  all     \\S+Z  \\S+Z  +-\\n`));
    expect(list.stdout).not.toContain(key);
    expect(await keys('revoke', id, '--data', dataFolder)).toMatchObject({
      status: 0,
      stdout: `revoked ${id}\n`,
    });
    expect(await status()).toBe(401);
    expect(await keys('revoke', 'nobody', '--data', dataFolder)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('has no key "nobody"'),
    });
  });

  test('creates a key for one entity', { tags: ['long'] }, async () => {
    const dataFolder = await temporaryFolder();
    const service = await startService({ engine: new ScriptedEngine(), dataFolder });
    onTestFinished(() => service.close());
    const created = await keys('create', '--entity', 'team-a', '--data', dataFolder);
    expect(created.stderr).toContain('the models of team-a only');
    const answer = await fetch(`${service.url}/v1/preview/models`, {
      method: 'POST',
      headers: { authorization: `Bearer ${created.stdout.trim()}` },
      body: JSON.stringify({ project: 'desk', base_model: 'scripted-tiny' }),
    });
    expect(await answer.json()).toMatchObject({ entity: 'team-a' });
    expect((await keys('list', '--data', dataFolder)).stdout).toMatch(/ team-a {2}/);
    expect(await keys('create', '--entity', 'team/a', '--data', dataFolder)).toMatchObject({
      ...{ status: 1, stdout: '' },
      stderr: expect.stringContaining("option '--entity <entity>' argument 'team/a' is invalid"),
    });
  });

  test('refuses a name with control characters', { tags: ['long'] }, async () => {
    const refused = await keys('create', '--name', '\u001b[2J', '--data', await temporaryFolder());
    expect(refused).toMatchObject({
      status: 1,
      stdout: '',
      stderr: expect.stringContaining('control character'),
    });
  });

  test('reports an invalid or missing data folder', async () => {
    const folder = await temporaryFolder();
    const file = join(folder, 'file');
    await writeFile(file, '');
    const [atFile, belowFile, missing] = [file, join(file, 'data'), join(folder, 'missing')];
    for (const data of [atFile, belowFile]) {
      const { status, stderr } = await keys('create', '--data', data);
      expect(status).toBe(1);
      expect(stderr).toContain(`cannot keep its data in ${data}`);
      expect(stderr).toContain('Choose another data folder. [bad_data_folder]');
    }
    expect(await keys('list', '--data', missing)).toMatchObject({
      ...{ status: 1, stdout: '' },
      stderr: `error: There is no data folder ${missing}. Check --data. [data_folder_not_found]\n`,
    });
    expect(await keys('list', '--data', folder)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('There are no keys.'),
    });
  });

  test('lists keys as a table, or says that there are none', () => {
    const record = { id: '0123456789abcdef', createdAt: '2026-01-05T09:00:00.000Z' };
    expect(
      keyTable([
        { ...record, name: '', entity: null, lastUsedAt: null, revokedAt: null },
        {
          ...record,
          name: 'cluster',
          entity: 'team-a',
          lastUsedAt: record.createdAt,
          revokedAt: record.createdAt,
        },
      ]),
    ).toBe(
      [
        'id                name     entity  created                   last used                 revoked',
        '0123456789abcdef  -        all     2026-01-05T09:00:00.000Z  never                     -',
        '0123456789abcdef  cluster  team-a  2026-01-05T09:00:00.000Z  2026-01-05T09:00:00.000Z  2026-01-05T09:00:00.000Z',
        '',
      ].join('\n'),
    );
    expect(keyTable([])).toContain('keys create');
  });
});
