import { Command } from 'commander';
import { martingaleVersion } from '../util/version.ts';

interface CommandFile {
  names: readonly string[];
  load: () => Promise<Command[]>;
}

/** The commands of `martingale --help`, in its order. */
const files: readonly CommandFile[] = [
  { names: ['init'], load: async () => [(await import('./init/init.ts')).initCommand()] },
  { names: ['serve'], load: async () => [(await import('./serve.ts')).serveCommand()] },
  { names: ['view'], load: async () => [(await import('./view.ts')).viewCommand()] },
  { names: ['doctor'], load: async () => [(await import('./doctor/doctor.ts')).doctorCommand()] },
  { names: ['export'], load: async () => [(await import('./export/export.ts')).exportCommand()] },
  { names: ['backup'], load: async () => [(await import('./backup.ts')).backupCommand()] },
  { names: ['keys'], load: async () => [(await import('./keys.ts')).keysCommand()] },
  { names: ['environments'], load: async () => [(await import('./environments.ts')).environmentsCommand()] },
  { names: ['scenarios'], load: async () => [(await import('./scenarios.ts')).scenariosCommand()] },
  { names: ['worker'], load: async () => [(await import('./worker.ts')).workerCommand()] },
  {
    names: ['runs', 'show', 'compare', 'plot'],
    load: async () => (await import('./run-commands/run-commands.ts')).runCommands(),
  },
  { names: ['preflight'], load: async () => [(await import('./preflight/preflight.ts')).preflightCommand()] },
  { names: ['eval'], load: async () => [(await import('./preflight/eval.ts')).evalCommand()] },
  {
    names: ['models', 'checkpoints', 'jobs', 'chat'],
    load: async () => (await import('./service-commands/service-commands.ts')).serviceCommands(),
  },
];

/**
 * The command `martingale`, which a process or a test runs.
 * @param asked The first argument. If it names a command, only that one is imported, which halves the time of a start;
 * otherwise all are.
 */
export async function createProgram(asked: string | undefined): Promise<Command> {
  const program = new Command('martingale')
    .description('Train TypeScript agents by reinforcement learning.')
    .version(martingaleVersion)
    .showHelpAfterError('(martingale --help lists the commands)');
  const named = files.filter(({ names }) => names.includes(asked ?? ''));
  for (const { load } of named.length > 0 ? named : files)
    for (const command of await load()) program.addCommand(command);
  if (named.length > 0) return program;
  const { completionCommand } = await import('./completion.ts');
  return program.addCommand(completionCommand(program));
}
