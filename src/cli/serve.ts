import { fstatSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { isatty } from 'node:tty';
import { Command, Option } from 'commander';
import { jsonLine } from '../contract/index.ts';
import type { Engine } from '../engines/engine.ts';
import type { LogEntry, ServiceLimits } from '../service/index.ts';
import { listenForErrors } from '../util/stream-errors.ts';
import { describeCheckpoints } from './checkpoint-flags.ts';
import { dataFlag, namedNumbers, repeatableFlag, wholeNumber } from './flags.ts';
import { addEngineFlags, type EngineFlags, openEngine } from './open-engine.ts';
import { listenForInterrupt } from './program-end.ts';

interface ServeOptions extends EngineFlags {
  host: string;
  port: number;
  data: string;
  priorityScheduling?: boolean;
  limit: Partial<ServiceLimits>;
  allowDataFolder: string[];
  allowDataHost: string[];
  log: 'problems' | 'all';
  stallTimeout: number;
  stopWithin: number;
}

/** The text at the start of the service: its URL, its keys, and a call to try. */
export function welcome({
  url,
  createdKey,
  storedKeys,
  data,
  baseModels = [],
}: {
  url: string;
  /** The key created for this start; null if there was one. */
  createdKey: string | null;
  storedKeys: number;
  data: string;
  /** A line for each checkpoint. */
  baseModels?: readonly string[];
}): string {
  const key = createdKey ?? (storedKeys > 0 ? '$KEY' : '$MARTINGALE_API_KEY');
  return [
    `serving on ${url}, with its data in ${data}`,
    ...baseModels,
    ...(createdKey === null
      ? []
      : [
          `key: ${createdKey} (valid until the service stops; "martingale keys create" makes a permanent one)`,
        ]),
    ...(storedKeys > 0 ? [`keys: ${storedKeys} in the data folder ("martingale keys list" shows them)`] : []),
    '',
    'Try it:',
    `  curl ${url}/v1/models -H "Authorization: Bearer ${key}"`,
    '',
    'Ctrl-C stops the service.',
    '',
  ].join('\n');
}

async function serve({
  host,
  port,
  data,
  priorityScheduling,
  limit: limits,
  log,
  stallTimeout,
  stopWithin,
  ...rest
}: ServeOptions): Promise<void> {
  // Loaded here, so that the other commands start without an engine.
  const { startService } = await import('../service/index.ts');
  const stopped = Promise.withResolvers<void>();
  const limitMs = stopWithin * 1000;
  const interrupt = listenForInterrupt({
    limitMs,
    onFirst: () => {
      process.stderr.write(
        `Stopping within ${stopWithin} s. Running jobs continue at the next start. Press Ctrl-C again to exit at once.\n`,
      );
      stopped.resolve();
    },
    onEarlyExit: (because) => {
      const why = because === 'limit' ? `Some work did not end within ${stopWithin} s` : 'Exited at once';
      process.stderr.write(`${why}: the next start continues from the data on disk.\n`);
    },
  });
  const writeLog = logFrom(log);
  let engine: Engine | undefined;
  try {
    engine = await openEngine(rest, {
      onWait: (reason) => writeLog({ level: 'warn', event: 'engine_waits', reason }),
      signal: interrupt.signal,
    });
    const apiKey = process.env.MARTINGALE_API_KEY || undefined;
    const dataFolder = resolve(data);
    const service = await startService({
      engine,
      dataFolder,
      host,
      port,
      apiKey,
      priorityScheduling,
      limits,
      log: writeLog,
      closeTimeoutMs: Math.min(5000, limitMs / 2),
      stallTimeoutMs: stallTimeout * 1000,
      trainingData: { folders: rest.allowDataFolder, hosts: rest.allowDataHost },
    });
    const { url, storedKeys } = service;
    const createdKey = apiKey === undefined && storedKeys === 0 ? service.apiKey : null;
    const baseModels = describeCheckpoints(engine, rest.checkpoint.length);
    process.stdout.write(welcome({ url, createdKey, storedKeys, data: dataFolder, baseModels }));
    await stopped.promise;
    await service.close();
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
  } finally {
    await engine?.close();
    interrupt.release();
  }
}

/** Writes the service's log to standard error, one JSON line per entry. */
function logFrom(level: ServeOptions['log']): (entry: LogEntry) => void {
  const levels = level === 'all' ? ['info', 'warn', 'error'] : ['warn', 'error'];
  const write = logOutput();
  return (entry) => {
    if (levels.includes(entry.level)) write(jsonLine(entry));
  };
}

const limitNames = [
  'replies',
  'bodyBytes',
  'jobs',
  'jobsOfModel',
  'groups',
  'eventStreams',
  'dataFetches',
  'connections',
] as const satisfies readonly (keyof ServiceLimits)[];

export const serveCommand = (): Command =>
  addEngineFlags(new Command('serve'))
    .description('Serve training and inference on this machine.')
    .option('--port <number>', 'port to listen on; 0 for a free one', wholeNumber(0, 65_535), 8000)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .addOption(dataFlag())
    .option('--priority-scheduling', 'order waiting requests by their priority')
    .addOption(
      new Option('--limit <name=number>', `limit of concurrent work: ${limitNames.join(', ')}; repeatable`)
        .argParser(namedNumbers(limitNames))
        .default({}, 'those of the service'),
    )
    .addOption(
      repeatableFlag('--allow-data-folder <folder>', 'folder that file: training data may come from'),
    )
    .addOption(
      repeatableFlag(
        '--allow-data-host <host>',
        'host that https: training data may come from, with =<address> if it is not on the public internet',
      ),
    )
    .option(
      '--stall-timeout <seconds>',
      'maximum pause of a client that sends a body or reads a response',
      wholeNumber(1, 86_400),
      60,
    )
    .option(
      '--stop-within <seconds>',
      'maximum time to stop after Ctrl-C or SIGTERM',
      wholeNumber(1, 86_400),
      10,
    )
    .addOption(
      new Option('--log <entries>', 'entries for standard error, one JSON line each')
        .choices(['problems', 'all'])
        .default('problems'),
    )
    .addHelpText(
      'after',
      '\nKeys come from "martingale keys create" and MARTINGALE_API_KEY. Without any key, one is created and printed.',
    )
    .action((options: ServeOptions) => serve(options));

const standardError = 2;

/**
 * Writes to standard error. To a file it writes directly: text that cannot be written, as on a full disk, is dropped,
 * and the next text is tried again. A stream would fail for good.
 */
export function logOutput(): (text: string) => void {
  listenForErrors(process.stderr, () => {});
  const found = fstatSync(standardError);
  if (found.isFIFO() || found.isSocket() || isatty(standardError))
    return (text) => void process.stderr.write(text);
  return (text) => {
    try {
      writeSync(standardError, text);
    } catch {
      // No output is left to report it on.
    }
  };
}
