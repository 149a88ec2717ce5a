import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it, onTestFinished } from 'vitest';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { startService } from '../../src/service/index.ts';
import { freePort } from '../support/free-port.ts';
import { fromSource, root } from '../support/programs.ts';
import { snippetsOf } from './documents.ts';

/** In the repository, so that packages resolve as they do for a reader. */
async function folderOfReader(): Promise<string> {
  await mkdir(join(root, '.martingale'), { recursive: true });
  const folder = await mkdtemp(join(root, '.martingale/workers-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function start(args: string[], cwd: string, env: Record<string, string>) {
  const child = spawn(process.execPath, [...fromSource, ...args], { cwd, env: { ...process.env, ...env } });
  onTestFinished(() => void child.kill('SIGKILL'));
  const errors = text(child.stderr);
  const output = text(child.stdout);
  const ended = once(child, 'exit').then(async ([code]) => ({ code, errors: await errors }));
  return { output, ended };
}

it('docs/workers.md has a program that trains on a worker started by its command', async () => {
  const snippets = await snippetsOf('docs/workers.md');
  const codeOf = (note: string) => snippets.find((snippet) => snippet.note === note)?.code ?? '';
  const command = snippets.find(({ language }) => language === 'sh')?.code ?? '';
  const folder = await folderOfReader();
  const engine = await createEmbeddedEngine({ threads: 1 });
  const service = await startService({ engine, dataFolder: join(folder, 'service') });
  const port = await freePort();
  const key = /MARTINGALE_WORKER_KEY='(.*)'/.exec(command)?.[1] ?? '';
  await writeFile(join(folder, 'sums.ts'), codeOf('sums.ts'));
  const program = codeOf('run').replace('  apiKey:', `  port: ${port},\n$&`);
  await writeFile(join(folder, 'train.ts'), program);
  const env = { MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey };
  const training = start(['train.ts'], folder, env);
  const args = /npx martingale (.*)/.exec(command)?.[1]?.replace('7410', String(port)).split(' ') ?? [];
  const worker = start([join(root, 'src/cli/main.ts'), ...args], folder, { MARTINGALE_WORKER_KEY: key });
  expect(await training.ended).toEqual({ code: 0, errors: expect.stringMatching(/\nfinished · .*\n$/) });
  expect(await training.output).toBe(`workers: http://127.0.0.1:${port}\n0 12 completed\n1 12 completed\n`);
  expect(await worker.ended).toMatchObject({ code: 0 });
  await service.close();
  await engine.close();
}, 120_000);
