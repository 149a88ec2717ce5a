import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Milliseconds that the service takes for an answer. */
export const delayMs = 200;

export interface RolloutsRow {
  inFlight: number;
  what: string;
  /** Calls per second. Each is one rollout. */
  perSecond: number;
  /** CPU time of a call in milliseconds, on all threads of the process, without the service. */
  cpuMs: number;
  /** Calls per second relative to the client alone. */
  share: number;
  /** Event-loop delay in milliseconds, less the sampling interval of 1 ms. */
  lag: { p50: number; p99: number };
  /** The longest garbage collection in milliseconds. The event loop cannot be less late. */
  collectionMs: number;
  /** Memory of a waiting rollout, and of a finished one that is still referenced, in KiB. */
  kib: { waiting: number; kept: number };
  /** Calls that are at the service at once; the others wait for a connection. */
  atService: number;
}

/**
 * Rollouts of one model call each against a service in another process that answers after a fixed delay, beside the
 * bare client doing the same calls with as many in flight. They run in a new process that only strips types, as `tsx`
 * adds 5 KiB of function names to each waiting rollout.
 */
export async function* benchRollouts(counts: readonly number[]): AsyncGenerator<RolloutsRow> {
  const path = fileURLToPath(new URL('./rollouts-run.ts', import.meta.url));
  const child = spawn(process.execPath, [path, ...counts.map(String)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  const ended = once(child, 'exit');
  for await (const line of createInterface(child.stdout)) yield JSON.parse(line);
  const [code] = await ended;
  if (code !== 0) throw new Error(`The measurement of rollouts ended with ${code}.`);
}
