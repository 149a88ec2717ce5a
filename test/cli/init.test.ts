import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { agents, ownAddress, projectFiles } from '../../src/cli/init/project.ts';
import { output } from '../support/command.ts';
import { temporaryFolder } from '../support/files.ts';
import { installedIn } from '../support/installed.ts';
import { fromSource, root } from '../support/programs.ts';
import { martingalePaths, typeCheck } from '../support/type-check.ts';

const run = promisify(execFile);
const init = (...args: string[]) => output(['init', ...args]);

/** What only the project of `mastra` needs. */
const mastra = join(root, 'node_modules/.cache/init/node_modules');

async function installMastra(): Promise<boolean> {
  const { dependencies } = JSON.parse((await projectFiles('.', 'mastra')).get('package.json') ?? '');
  const name = '@mastra/core';
  const packages = { [name]: dependencies[name], zod: dependencies.zod };
  return (await installedIn('init', packages)) !== undefined;
}

/** A project with this repository's packages, and martingale from its sources. */
async function projectOf(agent: string, parent: string): Promise<string> {
  const folder = join(parent, `my ${agent} project`);
  await init(folder, '--agent', agent);
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

async function checkProjects(agents: readonly string[]): Promise<void> {
  const parent = await temporaryFolder();
  if (agents.includes('mastra')) await symlink(mastra, join(parent, 'node_modules'));
  const folders: string[] = [];
  for (const agent of agents) folders.push(await projectOf(agent, parent));
  const known = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const paths = await martingalePaths();
  const [first = ''] = folders;
  const own = await readFile(join(first, 'tsconfig.json'), 'utf8');
  for (const folder of folders) {
    const { dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
    for (const name of Object.keys(dependencies))
      if (name !== 'martingale' && name !== '@mastra/core')
        expect({ ...known.dependencies, ...known.devDependencies }).toHaveProperty([name]);
    expect(await readFile(join(folder, 'tsconfig.json'), 'utf8')).toBe(own);
    const { stdout } = await run(process.execPath, [...fromSource, '--test', 'environment.test.ts'], {
      cwd: folder,
    });
    expect(stdout).toMatch(/pass 1\n/);
  }
  // All at once, because each reads the declarations of martingale.
  const check = join(first, 'tsconfig.check.json');
  const include = folders.map((folder) => join(folder, '*.ts'));
  await writeFile(check, JSON.stringify({ extends: './tsconfig.json', compilerOptions: { paths }, include }));
  expect(await typeCheck(check)).toBe('');
}

it.each([
  ['npm/10.9.2 node/v22.19.0 linux x64', true],
  ['npm/11.13.0 node/v24.0.0 linux x64', true],
  ['npm/11.16.0 node/v24.0.0 linux x64', false],
  ['npm/12.2.1 node/v26.0.0 linux x64', false],
  ['pnpm/11.0.0 npm/? node/v24.0.0 linux x64', false],
])(
  'a project of %s has a setting against the download of CUDA only if allowScripts is not read',
  async (agent, has) => {
    vi.stubEnv('npm_config_user_agent', agent);
    onTestFinished(() => void vi.unstubAllEnvs());
    const files = await projectFiles('crossing', 'ai-sdk');
    expect(files.has('.npmrc')).toBe(has);
    expect(JSON.parse(files.get('package.json') ?? '').allowScripts).toMatchObject({
      'onnxruntime-node': false,
    });
  },
);

it.each([
  ['file:../martingale-0.1.0.tgz', 'file:../../martingale-0.1.0.tgz'],
  ['git+https://git.example/martingale.git', 'git+https://git.example/martingale.git'],
  ['workspace:*', expect.stringMatching(/^\^\d/)],
  [undefined, expect.stringMatching(/^\^\d/)],
])('a project made in one that has martingale from %s finds it at %s', async (martingale, address) => {
  const parent = await temporaryFolder();
  const own = join(parent, 'node_modules/martingale/');
  await mkdir(own, { recursive: true });
  await writeFile(join(parent, 'package.json'), JSON.stringify({ dependencies: { martingale } }));
  expect(ownAddress(join(parent, 'crossing'), own)).toEqual(address);
});

describe('martingale init', () => {
  it('makes a project whose types and test hold', () => checkProjects(['ai-sdk']));

  it('makes one with each other agent', { tags: ['long'] }, async () => {
    const hasMastra = await installMastra();
    await checkProjects(agents.slice(1).filter((agent) => agent !== 'mastra' || hasMastra));
  });

  it('trains the tiny model to a higher reward, and the commands of the skill work on it', {
    tags: ['long'],
  }, async () => {
    const folder = await projectOf('ai-sdk', await temporaryFolder());
    const node = (...args: string[]) => run(process.execPath, [...fromSource, ...args], { cwd: folder });
    const { stdout } = await node('train.ts', '--json', '--seed', '1');
    const { evaluation } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
    expect(evaluation.after.reward).toBeGreaterThan(evaluation.before.reward + 0.3);
    // The skill compares two runs by name.
    const [name = ''] = await readdir(join(folder, 'runs'));
    await rename(join(folder, 'runs', name), join(folder, 'runs', 'first'));
    await cp(join(folder, 'runs', 'first'), join(folder, 'runs', 'second'), { recursive: true });
    const skill = await readFile(join(root, 'docs/skill/SKILL.md'), 'utf8');
    const commands = [...skill.matchAll(/^ *npx martingale (.+)$/gm)].map(([, command = '']) =>
      command.split(' '),
    );
    expect(commands.length).toBeGreaterThan(6);
    for (const command of commands.filter(([first = '']) => !['init', 'view'].includes(first))) {
      const { stdout: said } = await node(join(root, 'src/cli/main.ts'), ...command);
      expect(said.length, command.join(' ')).toBeGreaterThan(20);
    }
  });

  it('refuses a folder that has one of its files, and writes nothing', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'train.ts'), 'mine');
    await expect(init(folder)).rejects.toThrow(/has train\.ts already: nothing was written/);
    expect(await readFile(join(folder, 'train.ts'), 'utf8')).toBe('mine');
    await expect(readFile(join(folder, 'package.json'))).rejects.toThrow('ENOENT');
    await expect(init(folder, '--agent', 'cobol')).rejects.toThrow(
      /ai-sdk, openai, agents, anthropic, langgraph, mastra, python/,
    );
  });

  it('adds the skill for coding agents, alone or with a project', async () => {
    const folder = await temporaryFolder();
    await init(folder, '--only-skill');
    const skill = await readFile(join(folder, '.claude/skills/martingale/SKILL.md'), 'utf8');
    expect(skill).toBe(await readFile(join(root, 'docs/skill/SKILL.md'), 'utf8'));
    expect([...(await projectFiles(folder, 'python')).keys()]).toContain('agent.py');
  });
});
