import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { MartingaleError, printable } from '../contract/index.ts';
import { counted } from '../progress/index.ts';
import { isFree } from '../util/durable-files.ts';
import { serviceUrl, wholeNumber } from './flags.ts';
import { listenForInterrupt } from './program-end.ts';
import { taskBar } from './task-bar.ts';

interface ViewOptions {
  port: number;
  open: boolean;
  export?: string;
  maxRollouts: number;
  baseUrl?: string;
  apiKey?: string;
}

/** The folders of `[folder...]`: `runs` without one. @throws MartingaleError for one that does not exist. */
export function runFolders(folders: readonly string[]): string[] {
  const missing = folders.find((folder) => !existsSync(folder));
  if (missing !== undefined)
    throw new MartingaleError(
      'folder_not_found',
      `There is no folder ${resolve(missing)}. Pass folders with runs.`,
    );
  return (folders.length > 0 ? folders : ['runs']).map((folder) => resolve(folder));
}

async function view(folders: readonly string[], options: ViewOptions): Promise<void> {
  const shown = runFolders(folders);
  if (options.export !== undefined) return writePage(shown, options.export, options);
  const { port, open, baseUrl, apiKey } = options;
  if (baseUrl !== undefined && !apiKey)
    throw new MartingaleError(
      'bad_option',
      '--base-url needs a key of the service: set MARTINGALE_API_KEY or pass --api-key.',
    );
  const { startView } = await import('../view/index.ts');
  const interrupt = listenForInterrupt({ limitMs: 5000, onFirst: () => {}, onEarlyExit: () => {} });
  const running = await startView({
    folders: shown,
    port,
    service: baseUrl !== undefined && apiKey ? { baseUrl, apiKey } : undefined,
  });
  try {
    process.stdout.write(`${running.url}\n`);
    process.stderr.write(`shows the runs in ${printable(shown.join(', '))}; Ctrl-C ends it\n`);
    if (open && process.stdout.isTTY) openBrowser(running.openingUrl());
    await new Promise((done) => interrupt.signal.addEventListener('abort', done, { once: true }));
  } finally {
    await running.close();
    interrupt.release();
  }
}

async function writePage(folders: readonly string[], to: string, { maxRollouts }: ViewOptions) {
  const { exportPage } = await import('../view/index.ts');
  if (!(await isFree(to)))
    throw new MartingaleError(
      'bad_option',
      `--export ${to} is a file, or not empty: name a new or empty folder.`,
    );
  const interrupt = listenForInterrupt({ limitMs: 10_000, onFirst: () => {}, onEarlyExit: () => {} });
  const { signal } = interrupt;
  const bar = taskBar();
  try {
    const { runs, files, leftOut } = await exportPage({
      folders,
      to: resolve(to),
      maxRollouts,
      onProgress: (done, total, run) =>
        bar.show(done, total, `of ${counted(total, 'run')}: ${printable(run)}`),
      signal,
    });
    bar.clear();
    process.stdout.write(`${counted(runs, 'run')} in ${printable(resolve(to))}, ${counted(files, 'file')}\n`);
    for (const [run, names] of Object.entries(leftOut))
      process.stderr.write(
        `${printable(run)}: without the conversations of ${names.length} steps (--max-rollouts ${maxRollouts})\n`,
      );
  } catch (error) {
    if (interrupt.status === undefined) throw error;
    process.stderr.write('Interrupted: nothing was exported.\n');
    process.exitCode = interrupt.status;
  } finally {
    bar.clear();
    interrupt.release();
  }
}

/** Does nothing where there is no browser: the address is printed. */
function openBrowser(url: string): void {
  const [command, ...before] =
    process.platform === 'darwin'
      ? ['open']
      : process.platform === 'win32'
        ? ['cmd', '/c', 'start', '']
        : ['xdg-open'];
  const child = spawn(command ?? '', [...before, url], { stdio: 'ignore', detached: true });
  child.on('error', () => undefined);
  child.unref();
}

export const viewCommand = (): Command =>
  new Command('view')
    .description('Show runs in a browser: curves, steps, groups, conversations and tokens, live.')
    .argument('[folder...]', 'folders with runs, at any depth up to four (default: runs)')
    .addOption(
      new Option('--port <number>', 'port on 127.0.0.1; 0 is a free one')
        .argParser(wholeNumber(0, 65_535))
        .default(0),
    )
    .option('--no-open', 'do not open a browser')
    .option('--export <folder>', 'write the page as static files into a new or empty folder instead')
    .addOption(
      new Option('--max-rollouts <number>', 'with --export: most conversations of one run')
        .argParser(wholeNumber(1))
        .default(5000),
    )
    .addOption(new Option('--base-url <url>', 'a service to show too').argParser(serviceUrl))
    .addOption(new Option('--api-key <key>', 'key of that service').env('MARTINGALE_API_KEY'))
    .action(view);
