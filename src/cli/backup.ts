import { resolve } from 'node:path';
import { Command } from 'commander';
import { jsonLine, printable } from '../contract/index.ts';
import { counted } from '../progress/index.ts';
import type { Backup } from '../service/index.ts';
import { dataFlag } from './flags.ts';
import { listenForInterrupt } from './program-end.ts';

async function backup(folder: string, { data, json }: { data: string; json?: boolean }): Promise<void> {
  // Loaded on use, so that the other commands start without it.
  const { backUp } = await import('../service/index.ts');
  const interrupt = listenForInterrupt({ limitMs: 10_000, onFirst: () => {}, onEarlyExit: () => {} });
  let made: Backup;
  try {
    made = await backUp(resolve(data), resolve(folder), { signal: interrupt.signal });
  } catch (error) {
    if (interrupt.status === undefined) throw error;
    process.stderr.write('Interrupted: nothing was copied.\n');
    process.exitCode = interrupt.status;
    return;
  } finally {
    interrupt.release();
  }
  if (json) {
    process.stdout.write(jsonLine(made));
    return;
  }
  const { models, checkpoints, uploads, unfinishedJobs } = made;
  process.stdout.write(
    `${printable(made.folder)}: ${counted(models, 'model')}, ${counted(checkpoints, 'checkpoint')}, ${counted(uploads, 'upload')}, ${counted(unfinishedJobs, 'unfinished job')}.\n` +
      `To restore it: martingale serve --data ${printable(made.folder)}\n`,
  );
}

export const backupCommand = (): Command =>
  new Command('backup')
    .description('Copy the data folder of a service to a new folder; the service may be running.')
    .argument('<folder>', 'the copy: a new or an empty folder')
    .addOption(dataFlag())
    .option('--json', 'write what was copied as JSON')
    .action(backup);
