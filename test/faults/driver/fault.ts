/**
 * What happens at a durable step of a program:
 * `kill-before` and `kill-after`: SIGKILL around it; `kill-half`: SIGKILL when half of the bytes are written (of what
 * writes none: before it). The others make it fail as the system does, with nothing done.
 */
export type FaultMode =
  | 'kill-before'
  | 'kill-half'
  | 'kill-after'
  | 'ENOSPC'
  | 'EIO'
  | 'EROFS'
  | 'EMFILE'
  | 'EACCES';

/** A durable step: the name of its kind, and how many of that name came before it in the same thread. */
export interface FaultPoint {
  name: string;
  occurrence: number;
}

export interface FaultPlan {
  /** Only steps on files and databases in this folder count. */
  root: string;
  /** File that gets a line of JSON, a `FaultPoint`, for each step before it is done. */
  journal?: string;
  mode?: FaultMode;
  /** The step at which the fault happens. Default: every step. */
  at?: FaultPoint;
  /** The fault happens only while this file exists. */
  while?: string;
  /** File with a `FaultOrder` as JSON. While it exists, it replaces `mode`, `at` and `while`. */
  orders?: string;
}

/** A fault that a test turns on and off while the program runs. */
export interface FaultOrder {
  mode: FaultMode;
  /** Name of the steps with the fault. Default: every step. */
  name?: string;
}

const preloads = ['../../support/from-source.ts', './preload.ts'].flatMap((file) => [
  '--import',
  new URL(file, import.meta.url).href,
]);

/** Environment variable that carries the plan to the program, as JSON. */
export const planVariable = 'MARTINGALE_FAULT_PLAN';

/** Options of `spawn` that put a program under a plan; `process.execPath` is a Node that runs TypeScript. */
export function underFaults(plan: FaultPlan): { execArgv: string[]; env: NodeJS.ProcessEnv } {
  return {
    execArgv: [...preloads],
    env: { ...process.env, [planVariable]: JSON.stringify(plan) },
  };
}
