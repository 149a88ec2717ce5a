import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { snippetsOf } from '../../readme/documents.ts';
import { sharedFolder } from '../../support/files.ts';
import { fromSource, root } from '../../support/programs.ts';
import { pythonEnvironment } from '../python-environment.ts';

const run = promisify(execFile);
const journal = join(sharedFolder(), 'journal');
const file = join(import.meta.dirname, '../../formats/open-reward/serve/safe-file.ts');
let python: string | undefined;
let child: ChildProcess;

beforeAll(async () => {
  const environment = await pythonEnvironment({
    what: 'the client for Python of the Open Reward Standard',
    requirements: ['openreward==0.1.167'],
    minor: 11,
  });
  python = environment?.python;
}, 600_000);
const children: ChildProcess[] = [];
afterAll(() => children.forEach((one) => void one.kill('SIGKILL')));

async function served(key: string, module = file): Promise<string> {
  const program = [...fromSource, 'src/cli/main.ts', 'environments', 'serve', module, '--port', '0'];
  const process_ = spawn(process.execPath, program, {
    cwd: root,
    env: { ...process.env, SAFE_JOURNAL: journal, MARTINGALE_ENVIRONMENT_KEY: key },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child = process_;
  children.push(child);
  let text = '';
  for await (const chunk of process_.stdout) {
    text += chunk;
    if (text.includes('Ctrl-C')) break;
  }
  return /http:\/\/[^\s,]+/.exec(text)?.[0] ?? '';
}

describe('the client for Python of openreward', { tags: ['long'] }, () => {
  it('plays an environment that the command serves', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const url = await served('a-key');
    const driver = join(import.meta.dirname, 'drive_safe.py');
    const { stdout } = await run(python, [driver, url, 'a-key'], { timeout: 240_000 });
    const { tools, ...seen } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
    const wrong = `wrong ${'  🎲'.repeat(3000)}`;
    expect(tools).toEqual([]);
    expect(seen).toEqual({
      splits: ['train', 'test'],
      tasks: [{ code: 1 }, { code: 2 }, { code: 3 }],
      range: [{ code: 2 }, { code: 3 }],
      count: 1,
      prompt: ['[system]', 'Open the safe.', '[user]', 'Its code is 2. 你好 🎲'],
      messages: [
        ['system', ['Open the safe.']],
        ['user', ['Its code is 2. 你好 🎲']],
      ],
      session_tools: ['dial', 'hit'],
      openai_tools: expect.objectContaining({
        type: 'function',
        name: 'dial',
        description: 'Dials a digit.',
      }),
      // Python counts characters, not their units.
      wrong: [-0.25, false, [...wrong].length, 'wrong   '],
      malformed: ['input_validation', 'not_found'],
      right: [1, true, 'open', 'open'],
      after: 'episode_finished',
      is_final: true,
      said: [0, true, 0],
      failed: expect.stringContaining('ouch'),
      terminated: true,
      many: Array.from({ length: 60 }, () => 0.75),
    });
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
    const notes = (await readFile(journal, 'utf8')).trimEnd().split('\n');
    const count = (what: string) => notes.filter((note) => note.startsWith(what)).length;
    expect([count('open'), count('close')]).toEqual([63, 63]);
  });

  it('plays the environment of the documents with their program', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const snippets = await snippetsOf('docs/environments.md');
    const code = snippets.find(({ code: text }) => text.includes('serveVault'))?.code ?? '';
    const address = 'http://127.0.0.1:8080';
    const program =
      snippets.find(({ language, code: text }) => language === 'python' && text.includes(address))?.code ??
      '';
    // In the repository, so that packages resolve as they do for a reader.
    await mkdir(join(root, '.martingale'), { recursive: true });
    const folder = await mkdtemp(join(root, '.martingale/served-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await writeFile(join(folder, 'environment.ts'), code);
    const url = await served('a-long-secret', join(folder, 'environment.ts'));
    const { stdout } = await run(python, ['-c', program.replace(address, url)], {
      env: { ...process.env, OPENREWARD_API_KEY: '' },
      timeout: 120_000,
    });
    expect(stdout.trimEnd().split('\n').slice(-3)).toEqual([
      "Open the vault: find its digit. ['dial']",
      'higher None False',
      'It opens. 1 True',
    ]);
  });

  it('is refused without the key', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const url = await served('a-key');
    const driver = join(import.meta.dirname, 'drive_safe.py');
    await expect(run(python, [driver, url, 'another'], { timeout: 120_000 })).rejects.toThrow(
      /Authentication Failed/,
    );
  });
});
