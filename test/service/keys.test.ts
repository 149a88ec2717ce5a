import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { KeyStore, startService } from '../../src/service/index.ts';
import { temporaryFolder } from '../support/files.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { start } from './harness.ts';

/** The keys of a data folder on a separate connection, as in another process. */
async function openKeys(dataFolder: string): Promise<KeyStore> {
  const keys = await KeyStore.open(dataFolder);
  onTestFinished(() => keys.close());
  return keys;
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

describe('API keys', () => {
  test('a key is valid at once after its creation, and invalid at once after its revocation', async () => {
    const { call, dataFolder } = await start();
    const keys = await openKeys(dataFolder);
    const [first, second] = [keys.create('laptop'), keys.create('cluster')];
    const health = async (key: string) => (await call('GET', '/v1/health', undefined, bearer(key))).status;
    expect([await health(first.key), await health(second.key), await health('test-key')]).toEqual([
      200, 200, 200,
    ]);
    keys.revoke(first.id);
    expect([await health(first.key), await health(second.key), await health('test-key')]).toEqual([
      401, 200, 200,
    ]);
  });

  test('a revoked key is refused exactly like a wrong key', async () => {
    const { raw, dataFolder } = await start();
    const keys = await openKeys(dataFolder);
    const { id, key } = keys.create('');
    keys.revoke(id);
    const secret = key.slice(`mg-${id}-`.length);
    const wrong = [
      key,
      `mg-${id}-${'A'.repeat(secret.length)}`,
      `mg-${'0'.repeat(id.length)}-${secret}`,
      secret,
      id,
      'nonsense',
    ];
    const refusals = await Promise.all(
      wrong.map(async (given) => {
        const response = await raw('GET', '/v1/models', undefined, bearer(given));
        return { status: response.status, text: await response.text() };
      }),
    );
    expect(new Set(refusals.map((refusal) => JSON.stringify(refusal))).size).toBe(1);
    expect(refusals[0]?.status).toBe(401);
  });

  test('keys are listed in the order of their creation, whatever the clock', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const dataFolder = await temporaryFolder();
    const created: string[] = [];
    for (const year of [2030, 2026, 2026, 2001, 2040]) {
      vi.setSystemTime(new Date(year, 1));
      created.push((await openKeys(dataFolder)).create(String(year)).id);
    }
    expect((await openKeys(dataFolder)).list()).toMatchObject(created.map((id) => ({ id })));
  });

  test('the id of one key is invalid with the secret of another', async () => {
    const keys = await openKeys(await temporaryFolder());
    const [first, second] = [keys.create(''), keys.create('')];
    expect(keys.check(first.key)).toEqual({ id: first.id, entity: null });
    expect(keys.check(first.key.replace(first.id, second.id))).toBeUndefined();
  });

  test('only a hash is stored, in private files, and nothing of a key is logged', async () => {
    const { call, dataFolder, log, service } = await start();
    const keys = await openKeys(dataFolder);
    const { id, key } = keys.create('laptop');
    await call('GET', '/v1/models', undefined, bearer(key));
    const secret = key.slice(`mg-${id}-`.length);
    const files = readdirSync(dataFolder).filter((name) => name.startsWith('keys.sqlite'));
    expect(files.length).toBeGreaterThan(1);
    for (const name of files) {
      const path = join(dataFolder, name);
      expect(statSync(path).mode & 0o777, name).toBe(0o600);
      expect(readFileSync(path).includes(secret), name).toBe(false);
    }
    expect(JSON.stringify(log)).toContain('"path":"/v1/models"');
    expect(JSON.stringify(log)).not.toContain(secret);
    expect(JSON.stringify(log)).not.toContain(service.apiKey);
  });

  test('a list shows name, creation, last use and revocation', async () => {
    const { call, dataFolder } = await start();
    const keys = await openKeys(dataFolder);
    const used = keys.create('used');
    const unused = keys.create('unused');
    await call('GET', '/v1/health', undefined, bearer(used.key));
    keys.revoke(unused.id);
    keys.revoke(unused.id);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT/);
    expect(keys.list()).toHaveLength(2);
    expect(keys.list()).toEqual(
      expect.arrayContaining([
        { id: used.id, name: 'used', entity: null, createdAt: time, lastUsedAt: time, revokedAt: null },
        { id: unused.id, name: 'unused', entity: null, createdAt: time, lastUsedAt: null, revokedAt: time },
      ]),
    );
    expect(keys.revoke('0123456789abcdef')).toBeUndefined();
  });

  test('a file with another schema is refused', async () => {
    for (const [version, code] of [
      [0, 'data_folder_too_old'],
      [99, 'data_folder_too_new'],
    ] as const) {
      const dataFolder = await temporaryFolder();
      const database = new DatabaseSync(join(dataFolder, 'keys.sqlite'));
      database.exec(`CREATE TABLE keys (id TEXT); PRAGMA user_version = ${version}`);
      database.close();
      await expect(KeyStore.open(dataFolder)).rejects.toMatchObject({ code });
    }
  });

  test('a key of one entity is found with its entity, and keys are listed in the order of their creation', async () => {
    const dataFolder = await temporaryFolder();
    const keys = await openKeys(dataFolder);
    const first = keys.create('first');
    const limited = keys.create('new', { entity: 'team-a' });
    expect(keys.check(first.key)).toEqual({ id: first.id, entity: null });
    expect(keys.check(limited.key)).toEqual({ id: limited.id, entity: 'team-a' });
    expect(keys.list()).toMatchObject([{ id: first.id }, { id: limited.id }]);
    expect(() => keys.create('wrong', { entity: 'team/a' })).toThrow(/not a valid entity name/);
  });

  test('keys survive a restart', async () => {
    const { service, dataFolder } = await start();
    const { key } = (await openKeys(dataFolder)).create('');
    await service.close();
    const again = await start({ dataFolder, apiKey: undefined });
    expect(again.service.storedKeys).toBe(1);
    expect((await again.call('GET', '/v1/health', undefined, bearer(key))).status).toBe(200);
  });

  test('a public address requires a key that is not revoked', async () => {
    const dataFolder = await temporaryFolder();
    const open = () => startService({ engine: new ScriptedEngine(), dataFolder, host: '0.0.0.0' });
    await expect(open()).rejects.toMatchObject({
      code: 'key_required',
      message: expect.stringContaining('martingale keys create'),
    });
    const keys = await openKeys(dataFolder);
    const revoked = keys.create('');
    keys.revoke(revoked.id);
    await expect(open()).rejects.toMatchObject({ code: 'key_required' });
    const { key } = keys.create('');
    const service = await open();
    onTestFinished(() => service.close());
    const url = service.url.replace('0.0.0.0', '127.0.0.1');
    const status = async (given: string) =>
      (await fetch(`${url}/v1/health`, { headers: bearer(given) })).status;
    expect([await status(key), await status(revoked.key)]).toEqual([200, 401]);
  });
});
