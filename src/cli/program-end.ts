import { Worker } from 'node:worker_threads';
import { MartingaleError, printableLines } from '../contract/index.ts';

/** Exit status of a program that ends for one of these, as shells expect it: 128 and the number of the signal. */
const statuses = { SIGINT: 130, SIGTERM: 143, output_closed: 141 } as const;

/** Why a program is to end; `output_closed`: nobody reads its standard output any more, as with `| head`. */
export type InterruptReason = keyof typeof statuses;

export interface Interrupt {
  /** Aborted by the first Ctrl-C, by SIGTERM, or when standard output is closed. */
  readonly signal: AbortSignal;
  /** Exit status of a program that was interrupted: 130, 143 or 141. Undefined while it was not. */
  readonly status: number | undefined;
  /** The program is at its end: what is left running has until the limit, and signals end it as they do elsewhere. */
  release: () => void;
}

export interface InterruptOptions {
  /** How long the end may take from the first signal on. The program then leaves with what is on disk. */
  limitMs: number;
  /** Tells the person that the first has been heard, and how long it takes at most. */
  onFirst: (reason: InterruptReason) => void;
  /** Tells the person that the program leaves before its end, because the limit has passed or they asked again. */
  onCut: (because: 'limit' | 'again') => void;
  /** Also end when this can no longer be written to. Default: it goes on, and what it would write is lost. */
  output?: NodeJS.WriteStream;
}

/** One Ctrl-C comes more than once where npm or tsx, which the terminal told as well, pass it on. */
const echoMs = 500;

/** What the process gets beyond its limit where its event loop is held, and nothing but a kill ends it. */
const heldLoopMs = 1000;

/**
 * Lets the first interrupt end the program in good order, and the second at once. An end that takes longer than its
 * limit is cut off there, with the same exit status; by SIGKILL, where something holds the event loop.
 */
export function listenForInterrupt(options: InterruptOptions): Interrupt {
  const { limitMs, onFirst, onCut, output } = options;
  const controller = new AbortController();
  let status: number | undefined;
  let firstAtMs = 0;
  let limit: NodeJS.Timeout | undefined;
  let watch: Worker | undefined;
  const cut = (because: 'limit' | 'again') => {
    onCut(because);
    process.exit(status);
  };
  const interrupted = (reason: InterruptReason) => {
    if (status !== undefined) {
      if (reason !== 'output_closed' && performance.now() - firstAtMs >= echoMs) cut('again');
      return;
    }
    status = statuses[reason];
    firstAtMs = performance.now();
    limit = setTimeout(() => cut('limit'), limitMs);
    // Before the abort: what hears of it may hold the event loop.
    watch = killAfter(limitMs + heldLoopMs);
    controller.abort(new DOMException('Interrupted.', 'AbortError'));
    onFirst(reason);
  };
  const listeners = [onSignal('SIGINT', interrupted), onSignal('SIGTERM', interrupted)];
  const closed = () => interrupted('output_closed');
  output?.once('error', closed);
  for (const stream of [process.stdout, process.stderr])
    if (!stream.listeners('error').includes(ignored)) stream.on('error', ignored);
  return {
    signal: controller.signal,
    get status() {
      return status;
    },
    release: () => {
      output?.off('error', closed);
      if (status === undefined) for (const stop of listeners) stop();
      // It stays for what somebody left running; alone, it keeps no program from its end.
      limit?.unref();
      watch?.terminate();
    },
  };
}

function onSignal(name: 'SIGINT' | 'SIGTERM', interrupted: (reason: InterruptReason) => void): () => void {
  const listener = () => interrupted(name);
  process.on(name, listener);
  return () => process.off(name, listener);
}

/** Without a listener, a reader that goes away would end the program with a stack trace. */
const ignored = () => undefined;

/** Another thread has timers of its own: it ends a process whose event loop never gets to its own. */
function killAfter(ms: number): Worker | undefined {
  try {
    const worker = new Worker(`setTimeout(() => process.kill(process.pid, 'SIGKILL'), ${ms});`, {
      eval: true,
      execArgv: [],
    });
    worker.on('error', ignored).unref();
    return worker;
  } catch {
    // Where a program may have no threads, its own timer is all there is.
    return undefined;
  }
}

/** How long what was left running may take to end by itself. */
const graceMs = 2000;

/** How long a reader of the output may take to read what has been written. */
const readMs = 60_000;

/** Kinds that a program's own input and output are of. */
const ordinary = new Set(['TTYWrap', 'PipeWrap', 'FSReqCallback', 'WriteWrap', 'SimpleWriteWrap']);

/**
 * For the end of a program: what others left running, a timer of an agent's say, does not keep it from ending.
 * Where something still does after two seconds, once the output has been read, it is told what kinds there are, and
 * ends with its exit code.
 */
export function exitAfterFlush(): void {
  const endsAt = performance.now() + readMs;
  const look = () => {
    const unread = process.stdout.writableLength + process.stderr.writableLength;
    // Alone it keeps no program from its end.
    if (unread > 0 && performance.now() < endsAt) setTimeout(look, graceMs).unref();
    else leave();
  };
  setTimeout(look, graceMs).unref();
}

function leave(): void {
  const kinds = new Set(process.getActiveResourcesInfo().filter((kind) => !ordinary.has(kind)));
  process.stderr.write(
    `Something was left running (${[...kinds].join(', ') || 'of no known kind'}); ended without it.\n`,
    () => process.exit(),
  );
}

/** The system's own errors, such as a port that is taken: their message says it all. */
const isSystemError = (error: unknown): error is Error => error instanceof Error && 'syscall' in error;

const remedyOf = (error: Error): string =>
  'code' in error && error.code === 'EADDRINUSE'
    ? '. Stop what listens there, or choose another --port.'
    : '';

/**
 * Tells a person what went wrong: our errors and the system's by their message, anything else with its stack. A
 * message may hold what another machine said, and does nothing to the terminal.
 */
export function describeFailure(error: unknown): string {
  return printableLines(describe(error));
}

function describe(error: unknown): string {
  if (MartingaleError.isInstance(error)) return `error: ${error.message} [${error.code}]`;
  if (isSystemError(error)) return `error: ${error.message}${remedyOf(error)}`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
