import { resolve } from 'node:path';
import { Command } from 'commander';
import type { LogEntry } from '../service/index.ts';
import { wholeNumber } from './flags.ts';
import { listenForInterrupt } from './interrupt.ts';

interface ServeOptions {
  host: string;
  port: number;
  data: string;
  threads?: number;
}

/** What a person needs to use the service: where it is, its key, and a call to try. */
export function welcome({
  url,
  apiKey,
  isNewKey,
  data,
}: {
  url: string;
  apiKey: string;
  isNewKey: boolean;
  data: string;
}): string {
  const key = isNewKey ? apiKey : '$MARTINGALE_API_KEY';
  return [
    `serving on ${url}, with its data in ${data}`,
    ...(isNewKey ? [`key: ${apiKey} (made for this time; set MARTINGALE_API_KEY to have your own)`] : []),
    '',
    'Try it:',
    `  curl ${url}/v1/models -H "Authorization: Bearer ${key}"`,
    '',
    'Ctrl-C ends it.',
    '',
  ].join('\n');
}

async function serve({ host, port, data, threads }: ServeOptions): Promise<void> {
  // Loaded here, so that the other commands start without an engine.
  const [{ startService }, { createEmbeddedEngine }] = await Promise.all([
    import('../service/index.ts'),
    import('../engines/embedded/index.ts'),
  ]);
  const stopped = Promise.withResolvers<void>();
  const interrupt = listenForInterrupt(() => {
    process.stderr.write('Closing. Ctrl-C again leaves at once.\n');
    stopped.resolve();
  });
  const engine = await createEmbeddedEngine({ threads });
  try {
    const apiKey = process.env.MARTINGALE_API_KEY || undefined;
    const dataFolder = resolve(data);
    const service = await startService({ engine, dataFolder, host, port, apiKey, log: logProblems });
    process.stdout.write(
      welcome({ url: service.url, apiKey: service.apiKey, isNewKey: apiKey === undefined, data: dataFolder }),
    );
    await stopped.promise;
    await service.close();
  } finally {
    await engine.close();
    interrupt.release();
  }
}

function logProblems(entry: LogEntry): void {
  if (entry.level !== 'info') process.stderr.write(`${JSON.stringify(entry)}\n`);
}

export const serveCommand = (): Command =>
  new Command('serve')
    .description('Serve training and inference on this machine.')
    .option('--port <number>', 'port to listen on; 0 takes a free one', wholeNumber(0, 65_535), 8000)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--data <folder>', 'where models, checkpoints and jobs are kept', '.martingale')
    .option('--threads <number>', 'threads of the embedded engine', wholeNumber(1))
    .addHelpText('after', '\nThe key is taken from MARTINGALE_API_KEY; without it, one is made and printed.')
    .action((options: ServeOptions) => serve(options));
