import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../support/free-port.ts';
import { root } from '../support/programs.ts';

const run = promisify(execFile);

interface Figures {
  what: string;
  /** The smallest of several runs. */
  milliseconds: number;
}

/** The package's files as `npm run build` makes them, in a folder that finds the repository's packages. */
async function build(folder: string): Promise<void> {
  await run(process.execPath, [join(root, 'build.ts'), join(folder, 'dist')]);
  await cp(join(root, 'package.json'), join(folder, 'package.json'));
}

async function smallest(runs: number, measure: () => Promise<number>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let index = 0; index < runs; index++) least = Math.min(least, await measure());
  return least;
}

/** Milliseconds of an import in a new process. */
async function importTime(file: string): Promise<number> {
  const program = `const from = performance.now(); await import(process.argv[1]); console.log(performance.now() - from)`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program, file]);
  return Number(stdout);
}

/** Milliseconds from the start of `martingale serve` to its first answer. */
async function serveTime(folder: string): Promise<number> {
  const port = await freePort();
  const data = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const from = performance.now();
  const flags = ['serve', '--port', String(port), '--data', data];
  const child = spawn(process.execPath, [join(folder, 'dist/cli/main.js'), ...flags], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  try {
    // The end of the process ends the wait.
    while (child.exitCode === null) {
      const answered = await fetch(`http://127.0.0.1:${port}/v1/health`).catch(() => null);
      if (answered) return performance.now() - from;
      await sleep(5);
    }
    throw new Error(`martingale serve ended with ${child.exitCode}`);
  } finally {
    child.kill('SIGTERM');
    await ended;
    await rm(data, { recursive: true, force: true });
  }
}

/** How long the built package takes to load and to start. */
export async function benchStart(): Promise<Figures[]> {
  const folder = join(root, 'node_modules/.cache/bench-start');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await build(folder);
  const entries = {
    martingale: 'index.js',
    'martingale/client': 'client/index.js',
    'martingale/service': 'service/index.js',
    'martingale/embedded': 'engines/embedded/index.js',
    'martingale/cli': 'cli/index.js',
  };
  const figures: Figures[] = [];
  for (const [name, file] of Object.entries(entries))
    figures.push({
      what: `import of ${name}`,
      milliseconds: await smallest(10, () => importTime(join(folder, 'dist', file))),
    });
  figures.push({
    what: 'martingale serve, until it answers',
    milliseconds: await smallest(5, () => serveTime(folder)),
  });
  await rm(folder, { recursive: true, force: true });
  return figures;
}
