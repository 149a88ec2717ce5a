#!/usr/bin/env node
import '../platform/check-node.ts';

import { createProgram } from './program.ts';
import { describeFailure, exitAfterFlush } from './program-end.ts';

try {
  const program = await createProgram(process.argv[2]);
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`${describeFailure(error)}\n`);
  process.exitCode = 1;
} finally {
  // What agents and rollouts have left open does not keep the process alive.
  exitAfterFlush();
}
