import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';

/** Delays of the event loop since the last reading, in milliseconds. */
export interface LoopDelays {
  p50: number;
  p99: number;
  max: number;
  /**
   * The thread's longest own computation in one tick: a stall that the program causes, however little of the machine
   * it gets.
   */
  busyMax: number;
  /** The longest of these pauses that was caused by garbage collection. */
  collectorMax: number;
}

/** Figures of a process. Memory in bytes. */
export interface ProcessFigures {
  rss: number;
  heap: number;
  loop: LoopDelays;
}

const periodMs = 5;

/** Measures its own process. */
export class Meter {
  #delays: number[] = [];
  #busyMax = 0;
  #collectorMax = 0;
  #turn = performance.now();
  #busy = threadMs();

  constructor() {
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries())
        this.#collectorMax = Math.max(this.#collectorMax, duration);
    }).observe({ entryTypes: ['gc'] });
    setInterval(() => this.#tick(), periodMs).unref();
  }

  read(): ProcessFigures {
    this.#tick();
    const delays = this.#delays.sort((a, b) => a - b);
    const at = (share: number) => delays[Math.min(delays.length - 1, Math.floor(share * delays.length))] ?? 0;
    const loop = {
      p50: at(0.5),
      p99: at(0.99),
      max: at(1),
      busyMax: this.#busyMax,
      collectorMax: this.#collectorMax,
    };
    this.#delays = [];
    this.#busyMax = 0;
    this.#collectorMax = 0;
    return { rss: process.memoryUsage.rss(), heap: getHeapStatistics().used_heap_size, loop };
  }

  #tick(): void {
    const [turn, busy] = [performance.now(), threadMs()];
    this.#delays.push(Math.max(0, turn - this.#turn - periodMs));
    this.#busyMax = Math.max(this.#busyMax, busy - this.#busy);
    this.#turn = turn;
    this.#busy = busy;
  }
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
