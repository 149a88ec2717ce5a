import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { installCommand } from '../../src/engines/embedded/runtime.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { type RunningService, startService } from '../../src/service/index.ts';
import { firstProgram, guideCommands, hasRegistry, Project, pack } from './project.ts';

const folder = await Project.make();
afterAll(() => folder.remove());

describe('a project made from the package as the guide says', { tags: ['long'] }, () => {
  let canInstall = false;
  let project: Project;
  let commands: string[][];
  let engine: Engine;
  let service: RunningService;

  beforeAll(async () => {
    canInstall = await hasRegistry(folder);
    if (!canInstall) return;
    project = await Project.make();
    commands = await guideCommands(await pack(folder));
    for (const line of commands[0] ?? []) await project.succeed(line);
    await writeFile(join(project.folder, 'crossing.ts'), await firstProgram(3));
    engine = await createEmbeddedEngine({ threads: 1 });
    service = await startService({ engine, dataFolder: join(folder.folder, 'service') });
  }, 300_000);
  beforeEach(({ skip }) => skip(!canInstall, 'There is no package registry.'));
  afterAll(async () => {
    await service?.close();
    await engine?.close();
    await project?.remove();
  });

  it('has no ONNX Runtime, and says how to install it', async () => {
    const names = await readdir(join(project.folder, 'node_modules'));
    expect(names).toContain('martingale');
    expect(names.filter((name) => name.startsWith('onnxruntime'))).toEqual([]);
    const { code, stdout, stderr } = await project.run('npx martingale serve --port 0');
    expect([code, stdout]).toEqual([1, '']);
    const [command] = commands[1] ?? [];
    expect(command).toBe(installCommand('onnxruntime-node'));
    expect(stderr).toMatch(/^error: .* \[runtime_missing\]$/m);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stderr).toContain(`Run: ${command}`);
  });

  it('type-checks with TypeScript 5.9 and the newest, with both module resolutions', async () => {
    await project.succeed('npm install --save-dev typescript-5@npm:typescript@5.9');
    const entries = ['', '/cli', '/client', '/embedded', '/service', '/testing', '/tinker'];
    const imports = entries.map((entry, index) => `import * as m${index} from 'martingale${entry}';`);
    const used = `console.log(${entries.map((_, index) => `m${index}`).join()});\n`;
    await writeFile(join(project.folder, 'entries.ts'), `${imports.join('\n')}\n${used}`);
    for (const [module, moduleResolution] of [
      ['nodenext', 'nodenext'],
      ['esnext', 'bundler'],
    ]) {
      const compilerOptions = { module, moduleResolution, target: 'es2022', strict: true, noEmit: true };
      const config = { compilerOptions: { ...compilerOptions, types: ['node'], skipLibCheck: true } };
      await writeFile(
        join(project.folder, 'tsconfig.json'),
        JSON.stringify({ ...config, include: ['*.ts'] }),
      );
      for (const compiler of ['typescript-5', 'typescript'])
        expect([
          compiler,
          moduleResolution,
          await project.run(`node node_modules/${compiler}/bin/tsc`),
        ]).toEqual([compiler, moduleResolution, { code: 0, stdout: '', stderr: '' }]);
    }
  });

  it('shows addresses of modules in its errors as a program writes them', async () => {
    await writeFile(
      join(project.folder, 'wrong.mjs'),
      "import { workerThreads } from 'martingale';\nworkerThreads({ environment: './environment.ts' });\n",
    );
    const { stderr } = await project.run('node wrong.mjs');
    expect(stderr).toContain(
      '`environment` is "./environment.ts". Pass new URL(\'./environment.ts\', import.meta.url).',
    );
  });

  it('trains against a service elsewhere', async () => {
    const env = { MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey };
    const output = await project.succeed('npx tsx crossing.ts', { env });
    expect(output).toMatch(/^0 [01]\.\d\d\n1 [01]\.\d\d\n2 [01]\.\d\d\nThe record is in /);
    await rm(join(project.folder, 'runs'), { recursive: true });
  });
});
