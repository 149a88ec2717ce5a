import { Worker } from 'node:worker_threads';

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
