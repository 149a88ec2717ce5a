import { AsyncLocalStorage } from 'node:async_hooks';
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

const mostWarnings = 5;
let warnings = 0;

/** Other copies of this package in the process know each other's listeners by this, and whom a rejection belongs to. */
const ownsRejection = Symbol.for('martingale.ownsRejection');

const isOwned = () => owners.getStore() !== undefined;
const onRejection = Object.assign(
  (reason: unknown): void => {
    const owner = owners.getStore();
    if (owner) tell(owner, reason);
    else letGo(reason, { listener: onRejection, mark: ownsRejection });
  },
  { [ownsRejection]: isOwned },
);

/**
 * Runs code of an environment. A promise that it leaves behind and that is rejected with nobody waiting for it, be it
 * long after, ends neither the process nor the rollout: it is told as a warning, and in the trajectory's logs.
 * Rejections of others come to what they come to without this.
 */
export function watchLeftBehind<Result>(owner: CodeOwner, work: () => Promise<Result>): Promise<Result> {
  // It stays: what was left behind may be rejected while a job trains, and no rollout runs.
  if (!process.listeners('unhandledRejection').includes(onRejection))
    process.on('unhandledRejection', onRejection);
  return owners.run(owner, work);
}

function tell({ environment, group, trajectory }: CodeOwner, reason: unknown): void {
  // What the end of the rollout itself has ended.
  if (trajectory?.isClosed && isEnding(reason, trajectory.signal)) return;
  const what = `A promise that nobody waited for was rejected: ${describeThrown(reason)}`;
  if (trajectory && !trajectory.isSealed) trajectory.logs.push(what);
  if (warnings++ >= mostWarnings) return;
  const where = `environment "${environment}"${group === undefined ? '' : `, group ${group}`}`;
  const more =
    warnings === mostWarnings ? ' Further ones are told in the logs of their trajectories alone.' : '';
  process.emitWarning(`${where}: ${what}. Await it, or catch it.${more}`, {
    type: 'MartingaleWarning',
    code: 'promise_left_behind',
  });
}

/** Codes of what a rollout's end gives to what it ends. */
const endings = new Set(['rollout_ended', 'trajectory_closed']);

function isEnding(reason: unknown, signal: AbortSignal | undefined): boolean {
  if (signal?.aborted && reason === signal.reason) return true;
  if (!(reason instanceof Error)) return false;
  return reason.name === 'AbortError' || ('code' in reason && endings.has(String(reason.code)));
}

type Listener = (...given: never[]) => void;

/** What Node was told to do with rejections that nobody waits for; `throw` where it was told nothing. */
function modeOf(): string {
  const given = [...(process.env.NODE_OPTIONS ?? '').split(/\s+/), ...process.execArgv];
  const at = given.findLastIndex((flag) => flag.startsWith('--unhandled-rejections'));
  if (at < 0) return 'throw';
  return given[at]?.split('=')[1] ?? given[at + 1] ?? 'throw';
}

/**
 * Does with a rejection of somebody else's what Node would do if `listener` were not there: a listener alone keeps
 * Node from it. @param mark Property of our listeners, of other copies too, that says whether a rejection is theirs.
 */
export function letGo(reason: unknown, { listener, mark }: { listener: Listener; mark: symbol }): void {
  const listeners: Listener[] = process.listeners('unhandledRejection');
  const ours = listeners.filter((other) => mark in other);
  const isOurs = ours.some((other) => {
    const owns: unknown = Reflect.get(other, mark);
    return typeof owns === 'function' && owns() === true;
  });
  // Of several copies one does it; and nobody where somebody listens.
  if (isOurs || ours[0] !== listener || ours.length < listeners.length) return;
  const mode = modeOf();
  if (mode === 'throw') throw reason;
  if (mode !== 'warn-with-error-codes') return;
  process.exitCode = 1;
  process.emitWarning(String(reason), 'UnhandledPromiseRejectionWarning');
}
