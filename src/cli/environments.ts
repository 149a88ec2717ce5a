import { Command, InvalidArgumentError, Option } from 'commander';
import { jsonLine } from '../contract/index.ts';
import { ScenarioSet } from '../environment/index.ts';
import { serveEnvironment } from '../formats/open-reward/serve/serve-environment.ts';
import { wholeNumber } from './flags.ts';
import { badFile, type EnvironmentModule, loadEnvironmentModule } from './preflight/environment-file.ts';
import { listenForInterrupt } from './program-end.ts';

interface ServeFlags {
  export?: string;
  split: Readonly<Record<string, string>>;
  port: number;
  host: string;
  key?: string;
  maxSessions: number;
  idleTimeout: number;
  sessionTimeout: number;
  listReply?: boolean;
  stopWithin: number;
}

type Scenarios = readonly unknown[] | ScenarioSet<unknown>;

/** The exports that are splits by themselves, and the split that each is. */
const splitExports = { scenarios: 'train', train: 'train', validation: 'validation', test: 'test' };

const isScenarios = (value: unknown): value is Scenarios =>
  Array.isArray(value) || value instanceof ScenarioSet;

/** The scenarios of each split: of the exports that are named, or of those with the names of splits. */
function splitsOf(
  { path, exports }: EnvironmentModule,
  named: Readonly<Record<string, string>>,
): Record<string, Scenarios> {
  const splits: Record<string, Scenarios> = {};
  for (const [split, name] of Object.entries(named)) {
    const found = exports[name];
    if (!isScenarios(found))
      throw badFile(path, `has no scenarios in its export \`${name}\`: export an array or a ScenarioSet`);
    splits[split] = found;
  }
  if (Object.keys(named).length > 0) return splits;
  for (const [name, split] of Object.entries(splitExports)) {
    const found = exports[name];
    if (isScenarios(found)) splits[split] = found;
  }
  if (Object.keys(splits).length > 0) return splits;
  throw badFile(
    path,
    'has no scenarios: export arrays or ScenarioSets as `scenarios` or `train`, `validation` and `test`, or name other exports with --split',
  );
}

async function serve(file: string, flags: ServeFlags): Promise<void> {
  const { host, port, maxSessions, stopWithin } = flags;
  // An empty variable counts as unset.
  const apiKey = flags.key || undefined;
  const stopped = Promise.withResolvers<void>();
  const interrupt = listenForInterrupt({
    limitMs: stopWithin * 1000,
    onFirst: () => {
      process.stderr.write(`Stopping within ${stopWithin} s, after the clean-up of all sessions.\n`);
      stopped.resolve();
    },
    onEarlyExit: (because) => {
      const why = because === 'limit' ? `Some clean-up did not end within ${stopWithin} s` : 'Exited at once';
      process.stderr.write(`${why}: check what the sessions left behind.\n`);
    },
  });
  try {
    const module = await loadEnvironmentModule(file, flags.export);
    const scenarios = splitsOf(module, flags.split);
    const server = await serveEnvironment({
      environment: module.environment,
      scenarios,
      host,
      port,
      ...(apiKey === undefined ? {} : { apiKey }),
      maxSessions,
      idleTimeoutMs: flags.idleTimeout * 1000,
      timeoutMs: flags.sessionTimeout * 1000,
      listReply: flags.listReply ?? false,
      onProblem: (problem) => process.stderr.write(jsonLine(problem)),
      signal: interrupt.signal,
    });
    const { name } = module.environment;
    process.stdout.write(
      [
        `serving the environment ${name} on ${server.url}, over the Open Reward Standard`,
        `splits: ${Object.keys(scenarios).join(', ')}`,
        // A key that was given is known already, and may be a secret of others.
        ...(apiKey === undefined
          ? [`key: ${server.apiKey} (made for this process; set MARTINGALE_ENVIRONMENT_KEY for one of yours)`]
          : []),
        '',
        'Ctrl-C stops it.',
        '',
      ].join('\n'),
    );
    await stopped.promise;
    await server.close();
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
  } finally {
    interrupt.release();
  }
}

const splitFlag = (text: string, before: Readonly<Record<string, string>>) => {
  const [, split, name] = /^([\w-]+)=([\w$]+)$/.exec(text) ?? [];
  if (split === undefined || name === undefined)
    throw new InvalidArgumentError('It must be split=export, such as test=heldOut.');
  return { ...before, [split]: name };
};

export const environmentsCommand = (): Command =>
  new Command('environments')
    .description('Serve environments to other trainers.')
    .addCommand(
      new Command('serve')
        .description('Serve an environment in pieces over the Open Reward Standard, for trainers in Python.')
        .argument('<file>', 'a module that exports an environment by default, and its scenarios')
        .option('--export <name>', 'the export with the environment (default: `default`, or `environment`)')
        .addOption(
          new Option('--split <split=export>', 'a split, and the export with its scenarios; repeatable')
            .argParser(splitFlag)
            .default({}, 'train=scenarios, and the exports train, validation and test'),
        )
        .option('--port <number>', 'port to listen on; 0 for a free one', wholeNumber(0, 65_535), 8080)
        .option('--host <address>', 'address to listen on', '127.0.0.1')
        .addOption(
          new Option(
            '--key <key>',
            'key that requests send as bearer token or X-API-Key (default: a new one)',
          ).env('MARTINGALE_ENVIRONMENT_KEY'),
        )
        .option('--max-sessions <count>', 'most sessions at a time', wholeNumber(1), 1000)
        .option(
          '--idle-timeout <seconds>',
          'time without a call after which a session is deleted',
          wholeNumber(1, 86_400),
          900,
        )
        .option(
          '--session-timeout <seconds>',
          'longest time of a session; then it fails',
          wholeNumber(1, 604_800),
          86_400,
        )
        .option(
          '--stop-within <seconds>',
          'longest time to stop after Ctrl-C or SIGTERM',
          wholeNumber(1, 86_400),
          30,
        )
        .action(serve),
    );
