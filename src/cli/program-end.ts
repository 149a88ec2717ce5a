import { Worker } from 'node:worker_threads';
import { MartingaleError, printableLines } from '../contract/index.ts';
import { hasCode, isSystemError, traceOf } from '../util/error.ts';
import { listenForErrors } from '../util/stream-errors.ts';

/** Exit status of an interrupted program, as shells expect it: 128 plus the number of the signal. */
const statuses = { SIGINT: 130, SIGTERM: 143, output_closed: 141 } as const;

/** Why a program is interrupted. `output_closed`: the reader of its standard output has closed it, as `| head` does. */
export type InterruptReason = keyof typeof statuses;

export interface Interrupt {
  /** Aborted by the first Ctrl-C, by SIGTERM, or when standard output is closed. */
  readonly signal: AbortSignal;
  /** Exit status after an interrupt: 130, 143 or 141. Undefined before one. */
  readonly status: number | undefined;
  /** Call at the end of the program. Remaining work has until the limit, and signals have their default effect again. */
  release: () => void;
}

interface InterruptOptions {
  /** Longest time from the first interrupt to the end, in milliseconds. After it the program exits. */
  limitMs: number;
  /** Called at the first interrupt, to tell the user. */
  onFirst: (reason: InterruptReason) => void;
  /** Called before an early exit, at the limit or at a second interrupt, to tell the user. */
  onEarlyExit: (because: 'limit' | 'again') => void;
  /** A stream whose error is an interrupt too. Default: none; errors of standard output are ignored. */
  output?: NodeJS.WriteStream;
}

/** One Ctrl-C may arrive more than once: npm and tsx get it from the terminal too, and pass it on. */
const repeatMs = 500;

/** Time after the limit before a process with a blocked event loop is killed. */
const blockedLoopMs = 1000;

/**
 * The first interrupt aborts `signal`, so that the program can end in order; the second exits at once. At the limit the
 * program exits with the same status, or by SIGKILL if its event loop is blocked.
 */
export function listenForInterrupt(options: InterruptOptions): Interrupt {
  const { limitMs, onFirst, onEarlyExit, output } = options;
  const controller = new AbortController();
  let status: number | undefined;
  let firstAtMs = 0;
  let limit: NodeJS.Timeout | undefined;
  let watch: Worker | undefined;
  const exitEarly = (because: 'limit' | 'again') => {
    onEarlyExit(because);
    process.exit(status);
  };
  const interrupted = (reason: InterruptReason) => {
    if (status !== undefined) {
      if (reason !== 'output_closed' && performance.now() - firstAtMs >= repeatMs) exitEarly('again');
      return;
    }
    status = statuses[reason];
    firstAtMs = performance.now();
    limit = setTimeout(() => exitEarly('limit'), limitMs);
    // Before the abort, because its listeners may block the event loop.
    watch = killAfter(limitMs + blockedLoopMs);
    controller.abort(new DOMException('Interrupted.', 'AbortError'));
    onFirst(reason);
  };
  const listeners = [onSignal('SIGINT', interrupted), onSignal('SIGTERM', interrupted)];
  const closed = () => interrupted('output_closed');
  if (output) listenForErrors(output, closed);
  for (const stream of [process.stdout, process.stderr])
    if (!stream.listeners('error').includes(ignoreError)) listenForErrors(stream, ignoreError);
  return {
    signal: controller.signal,
    get status() {
      return status;
    },
    release: () => {
      output?.off('error', closed);
      if (status === undefined) for (const stop of listeners) stop();
      // The limit still applies to remaining work, but does not keep the process alive.
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

/** Without an error listener, a closed output would end the program with a stack trace. */
const ignoreError = () => undefined;

/** Kills the process from another thread, whose timer works even if the main event loop is blocked. */
function killAfter(ms: number): Worker | undefined {
  try {
    const worker = new Worker(`setTimeout(() => process.kill(process.pid, 'SIGKILL'), ${ms});`, {
      eval: true,
      execArgv: [],
    });
    worker.on('error', ignoreError).unref();
    return worker;
  } catch {
    // Threads may be forbidden. The timer of the main thread remains.
    return undefined;
  }
}

/** Time for remaining work to end by itself. */
const graceMs = 2000;

/** Time for a reader to read the output. */
const readMs = 60_000;

/** Kinds of resources of standard input and output. */
const standardKinds = new Set(['TTYWrap', 'PipeWrap', 'FSReqCallback', 'WriteWrap', 'SimpleWriteWrap']);

/**
 * Call at the end of a program, so that leftovers such as an agent's timer do not keep the process alive. If it still
 * runs after two seconds and its output has been read, it reports the kinds of leftovers and exits with its exit code.
 */
export function exitAfterFlush(): void {
  const endsAt = performance.now() + readMs;
  const check = () => {
    const unread = process.stdout.writableLength + process.stderr.writableLength;
    // `unref`: this timer must not keep the process alive.
    if (unread > 0 && performance.now() < endsAt) setTimeout(check, graceMs).unref();
    else exitNow();
  };
  setTimeout(check, graceMs).unref();
}

function exitNow(): void {
  const kinds = new Set(process.getActiveResourcesInfo().filter((kind) => !standardKinds.has(kind)));
  process.stderr.write(
    `Exited although something was still running: ${[...kinds].join(', ') || 'of unknown kind'}.\n`,
    () => process.exit(),
  );
}

/** A full disk, as the operating system and SQLite say it. */
const isDiskFull = (error: unknown): error is Error =>
  hasCode(error, 'ENOSPC') || (error instanceof Error && 'errcode' in error && error.errcode === 13);

/** What to do about an error of the operating system, whose message needs no stack. */
const remedyOf = (error: Error): string =>
  hasCode(error, 'EADDRINUSE')
    ? '. Stop the program that uses it, or choose another --port.'
    : isDiskFull(error)
      ? '. Make room on that disk, or write to another one.'
      : '';

/**
 * An error as text for people: the message of martingale's and the system's errors, the stack of others. Control
 * characters are made visible, because a message may contain text of another machine.
 */
export function describeFailure(error: unknown): string {
  return printableLines(describe(error));
}

function describe(error: unknown): string {
  if (MartingaleError.isInstance(error)) return `error: ${error.message} [${error.code}]`;
  if (isSystemError(error) || isDiskFull(error)) return `error: ${error.message}${remedyOf(error)}`;
  return traceOf(error);
}
