import { readFileSync } from 'node:fs';

const tickMs = 20;
/** Shorter blocks are usual: large garbage collections, many answers at once. */
const leastBlockMs = 100;

/** How this thread spent its time so far, in milliseconds. `queued`: it could run, and no processor was free. */
interface ThreadTime {
  running: number;
  /** Null where the system does not tell. */
  queued: number | null;
}

/** Linux counts the time in queues too: https://docs.kernel.org/scheduler/sched-stats.html (/proc/<pid>/schedstat). */
function threadTime(): ThreadTime {
  try {
    const [running = 0, queued = Number.NaN] = readFileSync('/proc/thread-self/schedstat', 'utf8')
      .split(' ')
      .map((nanoseconds) => Number(nanoseconds) / 1e6);
    if (!Number.isNaN(queued)) return { running, queued };
  } catch {
    // Another system.
  }
  const { user, system } = process.threadCpuUsage();
  return { running: (user + system) / 1000, queued: null };
}

/**
 * How much of a block is due to the code that ran, such as a long computation or a wait for a child process, and not to
 * other programs on the machine. Where the system does not tell how long the thread was queued, only computations count.
 */
export function heldMs(blockMs: number, from: ThreadTime, to: ThreadTime): number {
  if (from.queued !== null && to.queued !== null) return Math.max(0, blockMs - (to.queued - from.queued));
  return Math.min(blockMs, to.running - from.running);
}

/** What held up the event loop. */
interface LoopFigures {
  /** The longest block in milliseconds, whatever its reason; 0 if there was none. */
  loopDelayMs: number;
  /** The sum of the blocks of 100 ms and more, as far as the code of this process was the reason. */
  loopHeldMs: number;
}

/** Measures how long the event loop of this thread is blocked. */
export class LoopDelay implements Disposable {
  readonly #timer = setInterval(() => this.#tick(), tickMs).unref();
  #last = performance.now();
  #time = threadTime();
  #figures: LoopFigures = { loopDelayMs: 0, loopHeldMs: 0 };

  /** The figures since the last call. */
  take(): LoopFigures {
    // A block may have ended just now, before its timer.
    this.#tick();
    const figures = this.#figures;
    this.#figures = { loopDelayMs: 0, loopHeldMs: 0 };
    return figures;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const [now, time] = [performance.now(), threadTime()];
    const blockMs = Math.max(0, now - this.#last - tickMs);
    const held = heldMs(blockMs, this.#time, time);
    const { loopDelayMs, loopHeldMs } = this.#figures;
    this.#figures = {
      loopDelayMs: Math.max(loopDelayMs, blockMs),
      loopHeldMs: held < leastBlockMs ? loopHeldMs : loopHeldMs + held,
    };
    this.#last = now;
    this.#time = time;
  }
}
