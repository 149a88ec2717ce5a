import { AsyncLocalStorage } from 'node:async_hooks';
import { MartingaleError } from '../contract/index.ts';
import { describeThrown } from '../environment/index.ts';
import type { Trajectory } from '../trajectory/index.ts';

/** Whose code runs. */
export interface CodeOwner {
  environment: string;
  group?: number | undefined;
  /** Undefined for what belongs to the group. */
  trajectory?: Trajectory;
}

const owners = new AsyncLocalStorage<CodeOwner>();

/** Rejections go on for a while after the rollout that made their promises. */
const lingerMs = 10_000;
const mostWarnings = 5;

let running = 0;
let warnings = 0;
let leaving: NodeJS.Timeout | undefined;

/**
 * Runs code of an environment. A promise that it leaves behind and that is rejected with nobody waiting for it ends
 * neither the process nor the rollout: it is told as a warning, and in the trajectory's logs. Rejections of others are
 * left to whoever else listens for them, and end the process where nobody does, as they do without this.
 */
export async function watchLeftBehind<Result>(
  owner: CodeOwner,
  work: () => Promise<Result>,
): Promise<Result> {
  if (running++ === 0) {
    clearTimeout(leaving);
    if (!process.listeners('unhandledRejection').includes(onRejection))
      process.on('unhandledRejection', onRejection);
  }
  try {
    return await owners.run(owner, work);
  } finally {
    if (--running === 0)
      leaving = setTimeout(() => process.off('unhandledRejection', onRejection), lingerMs).unref();
  }
}

function onRejection(reason: unknown): void {
  const owner = owners.getStore();
  if (owner) tell(owner, reason);
  else if (process.listenerCount('unhandledRejection') === 1) throw reason;
}

function tell({ environment, group, trajectory }: CodeOwner, reason: unknown): void {
  // What the end of the rollout itself has ended.
  if (trajectory?.signal?.aborted && isEnding(reason, trajectory.signal)) return;
  const what = `A promise that nobody waited for was rejected: ${describeThrown(reason)}`;
  if (trajectory && !trajectory.isClosed) trajectory.logs.push(what);
  if (warnings++ >= mostWarnings) return;
  const where = `environment "${environment}"${group === undefined ? '' : `, group ${group}`}`;
  const more =
    warnings === mostWarnings ? ' Further ones are told in the logs of their trajectories alone.' : '';
  process.emitWarning(`${where}: ${what}. Await it, or catch it.${more}`, {
    type: 'MartingaleWarning',
    code: 'promise_left_behind',
  });
}

function isEnding(reason: unknown, signal: AbortSignal): boolean {
  if (reason === signal.reason || MartingaleError.isInstance(reason)) return true;
  return reason instanceof Error && reason.name === 'AbortError';
}
