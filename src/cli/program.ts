import { Command } from 'commander';
import { martingaleVersion } from '../util/version.ts';
import { backupCommand } from './backup.ts';
import { completionCommand } from './completion.ts';
import { doctorCommand } from './doctor/doctor.ts';
import { environmentsCommand } from './environments.ts';
import { exportCommand } from './export/export.ts';
import { initCommand } from './init/init.ts';
import { keysCommand } from './keys.ts';
import { evalCommand } from './preflight/eval.ts';
import { preflightCommand } from './preflight/preflight.ts';
import { runCommands } from './run-commands/run-commands.ts';
import { scenariosCommand } from './scenarios.ts';
import { serveCommand } from './serve.ts';
import { serviceCommands } from './service-commands/service-commands.ts';
import { viewCommand } from './view.ts';
import { workerCommand } from './worker.ts';

/** The command `martingale`, which a process or a test runs. */
export function createProgram(): Command {
  const program = new Command('martingale')
    .description('Train TypeScript agents by reinforcement learning.')
    .version(martingaleVersion)
    .addCommand(initCommand())
    .addCommand(serveCommand())
    .addCommand(viewCommand())
    .addCommand(doctorCommand())
    .addCommand(exportCommand())
    .addCommand(backupCommand())
    .addCommand(keysCommand())
    .addCommand(environmentsCommand())
    .addCommand(scenariosCommand())
    .addCommand(workerCommand())
    .showHelpAfterError('(martingale --help lists the commands)');
  for (const command of [...runCommands(), preflightCommand(), evalCommand(), ...serviceCommands()])
    program.addCommand(command);
  program.addCommand(completionCommand(program));
  return program;
}
