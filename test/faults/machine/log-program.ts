// Logs each line of its input, and confirms it.
import { createInterface } from 'node:readline';
import { logOutput } from '../../../src/cli/serve.ts';

const write = logOutput();
for await (const line of createInterface({ input: process.stdin })) {
  write(`${line}\n`);
  process.stdout.write('done\n');
}
