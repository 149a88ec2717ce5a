import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runtimeNames, runtimeVersion } from '../../../src/engines/embedded/runtime.ts';
import { temporaryFolder } from '../../support/files.ts';
import { fromSource, root } from '../../support/programs.ts';

const preload = new URL('../../support/hide-packages.ts', import.meta.url).href;

interface Ended {
  code: unknown;
  stdout: string;
  stderr: string;
}

/** Runs a program of the repository in which packages are missing or do not work. */
function run(args: string[], env: Record<string, string>): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--import', preload, ...args],
      { cwd: root, env: { ...process.env, ...env } },
      (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

const openEngine = (env: Record<string, string>) => run(['test/engines/embedded/opening-program.ts'], env);

const command = (name: string) => `npm install --ignore-scripts ${name}@${runtimeVersion}`;

describe('the embedded engine without ONNX Runtime', () => {
  const both = { HIDDEN_PACKAGES: runtimeNames.join() };

  it('says how to install it, by a stable code', async () => {
    const { stdout } = await openEngine(both);
    expect(stdout).toBe(
      `runtime_missing The embedded engine cannot load ONNX Runtime: onnxruntime-node is not installed, onnxruntime-web is not installed. Run: ${command('onnxruntime-node')}\n`,
    );
  });

  it.each([
    ['martingale serve', ['src/cli/main.ts', 'serve', '--port', '0', '--data']],
    ['a recipe', [...fromSource, 'recipes/sort/train.ts', '--steps', '1', '--run-directory']],
  ])('says so from %s, with no stack', async (_, args) => {
    const folder = await temporaryFolder();
    const { code, stderr } = await run([...args, join(folder, 'new')], both);
    expect(code).toBe(1);
    expect(stderr).toContain(`Run: ${command('onnxruntime-node')}`);
    expect(stderr).not.toMatch(/^\s+at /m);
  });

  it('runs on onnxruntime-web alone, and warns that it is slower unless it was chosen', {
    tags: ['long'],
  }, async () => {
    const alone = { HIDDEN_PACKAGES: 'onnxruntime-node' };
    const fallback = await openEngine(alone);
    expect(fallback.stdout).toBe('works\n');
    expect(fallback.stderr).toContain(`Run: ${command('onnxruntime-node')}`);
    const chosen = await openEngine({ ...alone, MARTINGALE_RUNTIME: 'onnxruntime-web' });
    expect(chosen).toEqual({ code: 0, stdout: 'works\n', stderr: '' });
  });

  it('runs on onnxruntime-node alone, and refuses the other if it is chosen', {
    tags: ['long'],
  }, async () => {
    const alone = { HIDDEN_PACKAGES: 'onnxruntime-web' };
    expect(await openEngine(alone)).toEqual({ code: 0, stdout: 'works\n', stderr: '' });
    const { stdout } = await openEngine({ ...alone, MARTINGALE_RUNTIME: 'onnxruntime-web' });
    expect(stdout).toBe(
      `runtime_missing The embedded engine cannot load ONNX Runtime: onnxruntime-web is not installed. Run: ${command('onnxruntime-web')}\n`,
    );
  });

  it('suggests the other runtime if the native one cannot be loaded', {
    tags: ['long'],
  }, async () => {
    const broken = { BROKEN_PACKAGES: 'onnxruntime-node' };
    const { stdout } = await openEngine({ ...broken, HIDDEN_PACKAGES: 'onnxruntime-web' });
    expect(stdout).toMatch(/onnxruntime-node cannot be loaded here \(libm\.so\.6: not found\)/);
    expect(stdout).toContain(`Run: ${command('onnxruntime-web')}\n`);
    const chosen = await openEngine({ ...broken, MARTINGALE_RUNTIME: 'onnxruntime-node' });
    expect(chosen.stdout).toContain(
      `Choose the runtime onnxruntime-web instead, after: ${command('onnxruntime-web')}`,
    );
  });

  it('names the version that the package and its tests use', async () => {
    const manifest = JSON.parse(await readFile(`${root}package.json`, 'utf8'));
    for (const name of runtimeNames) {
      expect([manifest.peerDependencies[name], manifest.devDependencies[name]]).toEqual([
        runtimeVersion,
        runtimeVersion,
      ]);
      expect(manifest.peerDependenciesMeta[name]).toEqual({ optional: true });
    }
  });
});
