/**
 * The project of the guide with other Nodes, package managers and runtimes: downloads of some 600 MB, which run where
 * `MARTINGALE_INSTALLS=1` asks for them.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { type RunningService, startService } from '../../src/service/index.ts';
import { snippetsOf } from '../readme/documents.ts';
import { root } from '../support/programs.ts';
import { firstProgram, guideCommands, Project, pack } from './project.ts';

const olderNodes = ['18', '20', '22.12', '22.18', '23'];
const entries = ['', '/cli', '/client', '/embedded', '/service', '/testing', '/tinker'];
const recipes = ['desk', 'search', 'sort', 'tone'];
const trained = /^0 [01]\.\d\d\n1 [01]\.\d\d\nThe record is in /;

describe.runIf(process.env.MARTINGALE_INSTALLS)(
  'a project made from the package',
  { timeout: 600_000 },
  () => {
    const made: Project[] = [];
    let folder: Project;
    let tarball: string;
    let engine: Engine;
    let service: RunningService;
    let env: Record<string, string>;

    /** A project with the program of README in it, and whatever else is given. */
    async function project(files: Record<string, string> = {}): Promise<Project> {
      const found = await Project.make();
      made.push(found);
      const program = await firstProgram(2);
      for (const [name, text] of Object.entries({ 'crossing.ts': program, ...files }))
        await writeFile(join(found.folder, name), text);
      return found;
    }

    /** Installs packages beside a project; gives the folder that has them. */
    async function tools(...names: string[]): Promise<string> {
      const allowScripts = { node: true, pnpm: true, deno: true, bun: true };
      const found = await project({ 'package.json': JSON.stringify({ allowScripts }) });
      await found.succeed(`npm install ${names.join(' ')}`);
      return join(found.folder, 'node_modules');
    }

    beforeAll(async () => {
      folder = await project();
      tarball = await pack(folder);
      engine = await createEmbeddedEngine({ threads: 1 });
      service = await startService({ engine, dataFolder: join(folder.folder, 'service') });
      env = { MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey };
    }, 600_000);
    afterAll(async () => {
      await service?.close();
      await engine?.close();
      await Promise.all(made.map((found) => found.remove()));
    });

    it('refuses an older Node, and Bun, in one line from every entry', async () => {
      const nodes = olderNodes.map((version) => `node-${version}@npm:node@${version}`);
      const installed = await tools(...nodes, 'bun@1');
      const light = await project();
      await light.succeed(`npm init -y && npm pkg set type=module && npm install ${tarball} ai@7 zod@4`);
      for (const [index, entry] of entries.entries())
        await writeFile(join(light.folder, `entry-${index}.js`), `import 'martingale${entry}';\n`);
      const programs = [
        ...entries.map((_, index) => `entry-${index}.js`),
        'node_modules/martingale/dist/cli/main.js --version',
      ];
      const refused = async (line: string, words: RegExp) => {
        const { code, stdout, stderr } = await light.run(line);
        expect([line, code, stdout, stderr]).toEqual([line, 1, '', expect.stringMatching(words)]);
        expect(stderr.trimEnd().split('\n')).toHaveLength(1);
      };
      for (const version of olderNodes) {
        const words = new RegExp(
          `needs Node 22\\.19, 24 or newer, and this is Node ${version}\\..*npm install node@24`,
        );
        const node = join(installed, `node-${version}/bin/node`);
        for (const program of programs) await refused(`${node} ${program}`, words);
        for (const recipe of recipes)
          await refused(`cd ${root} && ${node} --import tsx recipes/${recipe}/train.ts --steps 1`, words);
      }
      const bun = join(installed, '.bin/bun');
      for (const program of programs) await refused(`${bun} ${program}`, /not run on Bun/);
    });

    it('installs on an older Node as the guide says, with its own Node and the embedded engine', async () => {
      const bin = join(await tools('node@20'), 'node/bin');
      const own = await project();
      const [install = [], runtime = []] = await guideCommands(tarball);
      for (const line of install) await own.succeed(line, { bin });
      expect((await own.run('npx tsx crossing.ts', { bin, env })).stderr).toMatch(/needs Node 22\.19/);
      await own.succeed('npm install node@24', { bin });
      expect(await own.succeed('npx tsx crossing.ts', { bin, env })).toMatch(trained);
      await own.succeed(runtime[0] ?? '', { bin });
      await writeFile(join(own.folder, 'own.ts'), await ownService());
      expect(await own.succeed('npx tsx own.ts', { bin })).toContain('greedy success');
    });

    it('runs the embedded engine on onnxruntime-web alone', async () => {
      const web = await project({ 'own.ts': await ownService() });
      await web.succeed('npm init -y && npm pkg set type=module');
      await web.succeed(`npm install --ignore-scripts ${tarball} ai@7 zod@4 tsx onnxruntime-web@1.30.0`);
      const { stdout, stderr } = await web.run('npx tsx own.ts');
      expect(stdout).toContain('greedy success');
      expect(stderr).toContain('Run: npm install --ignore-scripts onnxruntime-node@1.30.0');
    });

    it('installs with pnpm as the guide says, and runs in Deno too', async () => {
      const builds =
        (await snippetsOf('docs/guide.md')).find(({ language }) => language === 'yaml')?.code ?? '';
      const installed = await tools('pnpm@12', 'deno@2');
      const bin = join(installed, 'pnpm');
      const strict = await project({
        'package.json': JSON.stringify({ type: 'module' }),
        'pnpm-workspace.yaml': builds,
        'own.ts': await ownService(),
      });
      const [install = [], runtime = []] = await guideCommands(tarball);
      for (const line of [...install.slice(1), runtime[0] ?? ''])
        await strict.succeed(line.replace('npm install', 'pnpm add'), { bin });
      await strict.succeed('pnpm add node-24@npm:node@24', { bin });
      expect(await strict.succeed('pnpm exec tsx crossing.ts', { bin, env })).toMatch(trained);
      expect(await strict.succeed('pnpm exec tsx own.ts', { bin })).toContain('greedy success');
      const deno = join(installed, '.bin/deno');
      expect(await strict.succeed(`${deno} run -A crossing.ts`, { env })).toMatch(trained);
      expect(await strict.succeed(`${deno} run -A own.ts 2`)).toContain('greedy success');
    });

    /** Service, engine and training in one process. */
    const ownService = () =>
      readFile(join(root, 'examples/one-process.ts'), 'utf8').then((code) => code.replace('?? 40', '?? 2'));
  },
);
