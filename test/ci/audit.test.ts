import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type LockedPackage, type LockFile, lockFaults, type Manifest } from '../../.ci/lock-file.ts';
import { temporaryFolder } from '../support/files.ts';
import { startServer } from '../support/http-server.ts';
import { outcomeOf } from '../support/programs.ts';

const root = new URL('../../', import.meta.url);
const read = (name: string) => readFileSync(new URL(name, root), 'utf8');
const lock: LockFile = JSON.parse(read('package-lock.json'));
const manifest: Manifest = JSON.parse(read('package.json'));
const npmrc = read('.npmrc');

/** The lock file with something put into one of its packages. */
const withChange = (path: string, change: LockedPackage): LockFile => ({
  ...lock,
  packages: { ...lock.packages, [path]: { ...lock.packages?.[path], ...change } },
});

describe('packages', () => {
  test('come from the registry, with hashes, and run only reviewed scripts', () => {
    expect(lockFaults(lock, manifest, npmrc)).toEqual([]);
  });

  const elsewhere = 'elsewhere.example/hono.tgz';
  test.each<[string, LockFile, Manifest, string, string]>([
    ['from elsewhere', withChange('node_modules/hono', { resolved: elsewhere }), manifest, npmrc, elsewhere],
    ['without a hash', withChange('node_modules/hono', { integrity: '' }), manifest, npmrc, 'SHA-512'],
    [
      'with a weak hash',
      withChange('node_modules/hono', { integrity: 'sha1-abc=' }),
      manifest,
      npmrc,
      'SHA-512',
    ],
    ['that is a folder', withChange('node_modules/hono', { link: true }), manifest, npmrc, 'is a link'],
    ...[
      'github:honojs/hono',
      'git+ssh://git@example/a.git',
      'file:../hono',
      'https://example/a.tgz',
      '/tmp/hono',
    ].map((range): [string, LockFile, Manifest, string, string] => [
      `asked for as ${range}`,
      withChange('', { dependencies: { hono: range } }),
      manifest,
      npmrc,
      `package.json: asks for hono from ${range}`,
    ]),
    [
      'with an unreviewed script',
      withChange('node_modules/ai/node_modules/hono', {
        ...lock.packages?.['node_modules/hono'],
        hasInstallScript: true,
      }),
      manifest,
      npmrc,
      'node_modules/ai/node_modules/hono: has an install script',
    ],
    [
      'with a script allowed without a reason',
      lock,
      { allowScripts: { ...manifest.allowScripts, hono: true } },
      npmrc,
      'hono',
    ],
    ['of another lock file', { ...lock, lockfileVersion: 1 }, manifest, npmrc, 'version 3'],
    ['without the settings', lock, manifest, '# strict-allow-scripts=true\n', 'strict-allow-scripts'],
  ])('%s are found', (_, changed, scripts, settings, fault) => {
    expect(lockFaults(changed, scripts, settings).join('\n')).toContain(fault);
  });
});

describe('the audit', () => {
  /** Runs it against a registry that answers so. */
  async function audit(status: number, body: object) {
    const registry = await startServer((request, response) => {
      const isAudit = request.url?.includes('/security/') ?? false;
      const packument = { name: decodeURIComponent(request.url ?? '').slice(1), versions: {} };
      request.resume();
      response.writeHead(isAudit ? status : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(isAudit ? body : packument));
    });
    onTestFinished(registry.close);
    const child = spawn(process.execPath, [fileURLToPath(new URL('.ci/audit.ts', root))], {
      env: {
        ...process.env,
        npm_config_registry: `${registry.url}/`,
        npm_config_fetch_retries: '0',
        npm_config_cache: await temporaryFolder(),
      },
    });
    const { errors, code } = await outcomeOf(child);
    return { told: errors, code };
  }
  const advisory = (severity: string) => ({
    hono: [
      {
        ...{ id: 1, url: 'https://example/1', title: 'A hole', severity, vulnerable_versions: '<999.0.0' },
        ...{ cwe: [], cvss: { score: 9, vectorString: null } },
      },
    ],
  });

  test('fails for critical advisories alone, and says if the registry has no audit', async () => {
    const [grave, small, refused] = await Promise.all([
      audit(200, advisory('critical')),
      audit(200, advisory('low')),
      audit(405, { error: 'no audits here' }),
    ]);
    expect(grave).toMatchObject({ code: 1, told: expect.stringMatching(/hono .*: critical/) });
    expect(small).toMatchObject({ code: 0, told: expect.stringContaining('"low":') });
    expect(refused).toMatchObject({ code: 0, told: expect.stringContaining('NOT AUDITED') });
  }, 60_000);
});
