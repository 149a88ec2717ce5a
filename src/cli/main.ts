#!/usr/bin/env node
import '../platform/check-node.ts';

import { Command } from 'commander';
import { martingaleVersion } from '../util/version.ts';
import { doctorCommand } from './doctor/doctor.ts';
import { exportCommand } from './export.ts';
import { keysCommand } from './keys.ts';
import { describeFailure } from './program-end.ts';
import { serveCommand } from './serve.ts';

const program = new Command('martingale')
  .description('Train TypeScript agents by reinforcement learning.')
  .version(martingaleVersion)
  .addCommand(serveCommand())
  .addCommand(doctorCommand())
  .addCommand(exportCommand())
  .addCommand(keysCommand())
  .showHelpAfterError();

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`${describeFailure(error)}\n`);
  process.exitCode = 1;
}
