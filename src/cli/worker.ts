import { hostname } from 'node:os';
import { pathToFileURL } from 'node:url';
import { Command, Option } from 'commander';
import { runWorker } from '../rollout/leases/index.ts';
import { serviceUrl, wholeNumber } from './flags.ts';
import { loadEnvironmentModule } from './preflight/environment-file.ts';
import { listenForInterrupt } from './program-end.ts';

interface WorkerFlags {
  url: string;
  key?: string;
  export: string;
  name: string;
  concurrency?: number;
  threads: number;
  wait: number;
  stopWithin: number;
}

/** Time after the end of leaving for clean-ups, in milliseconds. */
const cleanUpMs = 30_000;

async function work(file: string, flags: WorkerFlags): Promise<void> {
  const { url, name, threads, wait, stopWithin } = flags;
  const log = (line: string) => process.stderr.write(`${line}\n`);
  const interrupt = listenForInterrupt({
    limitMs: stopWithin * 1000 + cleanUpMs,
    onFirst: () => log(`Leaving: rollouts in flight may end within ${stopWithin} s; then others get them.`),
    onEarlyExit: (because) =>
      log(
        because === 'limit'
          ? 'Some clean-up did not end in time: exited without it.'
          : 'Exited at once: others get the rollouts in flight.',
      ),
  });
  try {
    const { path, environment } = await loadEnvironmentModule(file, flags.export);
    const options = {
      environment,
      module: pathToFileURL(path),
      exportName: flags.export,
      // An empty variable counts as unset.
      key: flags.key || undefined,
      name,
      concurrency: flags.concurrency ?? (threads > 0 ? 8 * threads : 64),
      threads,
      leaveWithinMs: stopWithin * 1000,
      url,
      waitMs: wait * 1000,
      signal: interrupt.signal,
      log,
    };
    const counts = await runWorker(options);
    const { dispatched, completed, failed, cancelled } = counts;
    log(
      `${dispatched} rollouts: ${completed} completed, ${failed} failed, ${cancelled} cancelled or given back.`,
    );
  } finally {
    interrupt.release();
  }
}

export const workerCommand = (): Command =>
  new Command('worker')
    .description('Run rollouts for a training program on another machine, which uses leases().')
    .argument('<file>', "the module of the environment; its files must be the same as the program's")
    .requiredOption('--url <url>', 'address of the program, such as http://10.0.0.4:7410', serviceUrl)
    .addOption(new Option('--key <key>', 'the `apiKey` of leases()').env('MARTINGALE_WORKER_KEY'))
    .option('--export <name>', 'the export with the environment', 'default')
    .option('--name <name>', 'what the program calls this worker', `${hostname()}:${process.pid}`)
    .option(
      '--concurrency <count>',
      'most rollouts at a time (default: 64, or 8 per thread)',
      wholeNumber(1, 100_000),
    )
    .option(
      '--threads <count>',
      'worker threads, for environments that use much CPU; 0: none',
      wholeNumber(0, 1024),
      0,
    )
    .option(
      '--wait <seconds>',
      'longest time to wait for a program that cannot be reached',
      wholeNumber(1, 604_800),
      300,
    )
    .option(
      '--stop-within <seconds>',
      'longest time for rollouts in flight after Ctrl-C or SIGTERM',
      wholeNumber(0, 86_400),
      30,
    )
    .action(work);
