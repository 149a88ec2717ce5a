import { resolve } from 'node:path';
import { Command } from 'commander';
import { jsonLine, printable } from '../contract/index.ts';
import { counted } from '../progress/index.ts';
import { dataFlag } from './flags.ts';

async function backup(folder: string, { data, json }: { data: string; json?: boolean }): Promise<void> {
  // Loaded on use, so that the other commands start without it.
  const { backUp } = await import('../service/index.ts');
  const made = await backUp(resolve(data), resolve(folder));
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
