#!/usr/bin/env node
import '../platform/check-node.ts';

import { createProgram } from './program.ts';
import { describeFailure } from './program-end.ts';

try {
  await createProgram().parseAsync();
} catch (error) {
  process.stderr.write(`${describeFailure(error)}\n`);
  process.exitCode = 1;
}
