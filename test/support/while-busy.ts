import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';

/** A process that computes in this many threads, until its standard input ends. */
const busy = `
  const { Worker } = require('node:worker_threads');
  const code = "require('node:worker_threads').parentPort.postMessage(null); for (;;);";
  let idle = Number(process.argv[1]);
  for (let count = idle; count > 0; count--)
    new Worker(code, { eval: true }).once('message', () => --idle || console.log('busy'));
  process.stdin.on('end', () => process.exit()).resume();
`;

/** Does work while another process uses every processor, with two threads for each. */
export async function whileBusy<Result>(work: () => Promise<Result>): Promise<Result> {
  const args = ['-e', busy, String(2 * availableParallelism())];
  const other = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    await once(other.stdout, 'data');
    return await work();
  } finally {
    other.kill('SIGKILL');
  }
}
