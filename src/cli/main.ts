#!/usr/bin/env node
import '../platform/check-node.ts';

import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { describeFailure } from './fail.ts';
import { keysCommand } from './keys.ts';
import { serveCommand } from './serve.ts';

const manifest: { version: string } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
);

const program = new Command('martingale')
  .description('Train TypeScript agents by reinforcement learning.')
  .version(manifest.version)
  .addCommand(serveCommand())
  .addCommand(keysCommand())
  .showHelpAfterError();

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`${describeFailure(error)}\n`);
  process.exitCode = 1;
}
