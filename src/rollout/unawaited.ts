import { AsyncLocalStorage } from 'node:async_hooks';
import { describeWithLocation } from '../environment/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { warn } from '../util/warning.ts';

/** The environment and rollout that the current code belongs to. */
export interface CodeOwner {
  environment: string;
  group?: number | undefined;
  /** Undefined for code of the whole group, such as group rewards. */
  trajectory?: Trajectory;
}

const owners = new AsyncLocalStorage<CodeOwner>();

const maxWarnings = 5;
let warnings = 0;

/**
 * Lets several copies of this package in one process recognize each other's listeners, and ask who owns a rejection.
 */
const ownsRejection = Symbol.for('martingale.ownsRejection');

const isOwned = () => owners.getStore() !== undefined;
const onRejection = Object.assign(
  (reason: unknown): void => {
    const owner = owners.getStore();
    if (owner) warnOfPromise(owner, reason);
    else handleLikeNode(reason, { listener: onRejection, mark: ownsRejection });
  },
  { [ownsRejection]: isOwned },
);

/**
 * Runs code of an environment. If a promise that it does not await rejects, even much later, neither the process nor
 * the rollout ends: the rejection becomes a warning and a line in the trajectory's logs. Rejections of other code are
 * handled as if this function did not exist.
 */
export function guardUnawaited<Result>(owner: CodeOwner, work: () => Promise<Result>): Promise<Result> {
  // Never removed: a promise may reject later, while a job trains and no rollout runs.
  if (!process.listeners('unhandledRejection').includes(onRejection))
    process.on('unhandledRejection', onRejection);
  return owners.run(owner, work);
}

function warnOfPromise({ environment, group, trajectory }: CodeOwner, reason: unknown): void {
  // Caused by the end of the rollout itself.
  if (trajectory?.isClosed && isEnding(reason, trajectory.signal)) return;
  const what = `A promise that was not awaited rejected: ${describeWithLocation(reason)}`;
  if (trajectory && !trajectory.isSealed) trajectory.logs.push(what);
  if (warnings++ >= maxWarnings) return;
  const where = `environment "${environment}"${group === undefined ? '' : `, group ${group}`}`;
  const more = warnings === maxWarnings ? ' Further ones appear only in the logs of their trajectories.' : '';
  warn('martingale_promise_left_behind', `${where}: ${what}. Await it, or catch it.${more}`);
}

/** Codes of the errors with which the end of a rollout aborts its pending work. */
const endings = new Set(['rollout_ended', 'trajectory_closed']);

function isEnding(reason: unknown, signal: AbortSignal | undefined): boolean {
  if (signal?.aborted && reason === signal.reason) return true;
  if (!(reason instanceof Error)) return false;
  return reason.name === 'AbortError' || ('code' in reason && endings.has(String(reason.code)));
}

type Listener = (...args: never[]) => void;

/** Node's mode for unhandled rejections, from its flags. Default `throw`. */
function unhandledRejectionMode(): string {
  const flags = [...(process.env.NODE_OPTIONS ?? '').split(/\s+/), ...process.execArgv];
  const at = flags.findLastIndex((flag) => flag.startsWith('--unhandled-rejections'));
  return flags[at]?.split('=')[1] ?? (at < 0 ? undefined : flags[at + 1]) ?? 'throw';
}

/**
 * Handles a rejection of other code as Node would without `listener`, because any listener turns Node's handling off.
 * @param mark Property of our listeners, also of other copies of the package: says whether a rejection is theirs.
 */
function handleLikeNode(reason: unknown, { listener, mark }: { listener: Listener; mark: symbol }): void {
  const listeners: Listener[] = process.listeners('unhandledRejection');
  const ours = listeners.filter((other) => mark in other);
  const isOurs = ours.some((other) => {
    const owns: unknown = Reflect.get(other, mark);
    return typeof owns === 'function' && owns() === true;
  });
  // Only the first copy acts, and none does if the program has its own listener.
  if (isOurs || ours[0] !== listener || ours.length < listeners.length) return;
  const mode = unhandledRejectionMode();
  if (mode === 'throw') throw reason;
  if (mode !== 'warn-with-error-codes') return;
  process.exitCode = 1;
  process.emitWarning(String(reason), 'UnhandledPromiseRejectionWarning');
}
