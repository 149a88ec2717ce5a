import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { linuxTime } from '../../../util/linux-time.ts';

/** Number of checks within the timeout. */
const checks = 10;

const beatsAt = 0;
const threadAt = 1;

/** The worker's part of its watchdog. */
export interface WatchdogStart {
  /** Two numbers: the beats so far, and Linux's number of the thread, or 0. */
  shared: SharedArrayBuffer;
  everyMs: number;
}

/** Called in the thread: counts up while its event loop runs. Does not keep the thread alive. */
export function beat({ shared, everyMs }: WatchdogStart): void {
  const state = new Int32Array(shared);
  Atomics.store(state, threadAt, linuxThread());
  setInterval(() => Atomics.add(state, beatsAt, 1), everyMs).unref();
}

function linuxThread(): number {
  try {
    return Number(basename(readlinkSync('/proc/thread-self')));
  } catch {
    return 0;
  }
}

/** Processor time of a thread of this process, in milliseconds; undefined while it waits, and on other systems. */
function processorMs(thread: number): number | undefined {
  const time = linuxTime(`/proc/self/task/${thread}`);
  return time?.runs ? time.processorMs : undefined;
}

/**
 * Watches from another thread whether a thread's event loop runs. Time in which the watching thread did not run, such
 * as the sleep of the machine, does not count, nor does time in which the watched thread is `excused`. On Linux a thread
 * that computes is silent for its processor time, however long it has to wait for a processor.
 */
export class Watchdog {
  readonly start: WatchdogStart;
  readonly #everyMs: number;
  readonly #state: Int32Array;
  #silentMs = 0;

  /** `timeoutMs`: how long the thread may be silent. */
  constructor(timeoutMs: number) {
    this.#everyMs = timeoutMs / checks;
    this.start = { shared: new SharedArrayBuffer(8), everyMs: this.#everyMs / 2 };
    this.#state = new Int32Array(this.start.shared);
  }

  /** How long the thread has been silent, in whole milliseconds. */
  get silentMs(): number {
    return Math.round(this.#silentMs);
  }

  /** Calls `onSilent` once the thread has been silent for too long. The returned function stops watching. */
  watch({ excused, onSilent }: { excused: () => boolean; onSilent: () => void }): () => void {
    const observe = () => ({
      beats: Atomics.load(this.#state, beatsAt),
      processorMs: processorMs(Atomics.load(this.#state, threadAt)),
    });
    let last = observe();
    const timer = setInterval(() => {
      const now = observe();
      const computedMs = (now.processorMs ?? Number.POSITIVE_INFINITY) - (last.processorMs ?? 0);
      const passedMs = Math.min(this.#everyMs, computedMs);
      this.#silentMs = now.beats !== last.beats || excused() ? 0 : this.#silentMs + passedMs;
      last = now;
      if (this.silentMs < checks * this.#everyMs) return;
      clearInterval(timer);
      onSilent();
    }, this.#everyMs).unref();
    return () => clearInterval(timer);
  }
}
