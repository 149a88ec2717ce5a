import { LRUCache } from 'lru-cache';
import type { Weights } from '../../engine.ts';
import type { CallOptions } from '../threads/running-thread.ts';
import type { EncodeCall, SamplerCall, SamplingCall, WorkerSettings } from '../threads/worker-messages.ts';
import { WorkerThread, workerModule } from '../threads/worker-thread.ts';
import { blockLength } from './prefix-cache.ts';

/** When all running threads have this many calls in flight, the next thread starts. */
const callsPerThread = 4;

/** A call leaves the thread that knows its prompt when another thread has this many fewer calls in flight. */
const maxImbalance = 8;

/** Prompts whose thread is remembered. The cache's `max` would take the memory of all of them at once. */
const promptsKept = 10_000;

interface Thread {
  worker: WorkerThread<SamplerCall>;
  state: 'idle' | 'starting' | 'ready';
  callsInFlight: number;
}

/**
 * Threads that sample, each with its own batches, weights and prefix cache. Small models have a thread for each core,
 * which is faster for them than one thread whose matrix products use several cores. Others have one thread with all
 * cores in each product: a step reads all weights, so that each further thread would read them again. Threads start when
 * there are calls for them, the first one also by `start`.
 *
 * The reply to a call does not depend on the thread, so calls go where there are fewest; a prompt that continues an
 * earlier one goes to the thread whose prefix cache has it, unless that is much busier.
 */
export class SamplerThreads {
  readonly #threads: readonly Thread[];
  /** Where a prompt was sent, by the hash of its longest part in whole blocks. */
  readonly #sent = new LRUCache<number, Thread>({ maxSize: promptsKept, sizeCalculation: () => 1 });

  /** `settings.threads`: the cores that they use. `isSmall`: of the models that they sample from. */
  constructor(settings: WorkerSettings, isSmall: boolean) {
    const count = isSmall ? settings.threads : 1;
    const own: WorkerSettings = {
      ...settings,
      device: isSmall ? 'cpu' : settings.device,
      threads: settings.threads / count,
      prefixCacheBytes: Math.floor(settings.prefixCacheBytes / count),
    };
    this.#threads = Array.from({ length: count }, () => ({
      worker: new WorkerThread(workerModule('../sampler/worker'), own),
      state: 'idle',
      callsInFlight: 0,
    }));
  }

  /** Starts the first thread; returns the name of its runtime. */
  async start(): Promise<string> {
    const first = this.#threads[0] as Thread;
    const runtime = await first.worker.running.ready;
    first.state = 'ready';
    return runtime;
  }

  async call<Result>(call: SamplingCall | EncodeCall, options: CallOptions): Promise<Result> {
    if (this.#ready.length === 0) await this.start();
    const thread = this.#choose(call.type === 'encode' ? [] : call.request.prompt);
    thread.callsInFlight++;
    try {
      return await thread.worker.call<Result>(call, options);
    } finally {
      thread.callsInFlight--;
    }
  }

  /** Lets each thread load weights before the first call for them. A failure is reported by that call. */
  load(weights: Weights): void {
    for (const { worker } of this.#ready) worker.tell({ type: 'load', weights });
  }

  /** Each thread releases the weights once it no longer samples from them. */
  drop(weights: Weights): void {
    for (const { worker } of this.#ready) worker.tell({ type: 'drop', weights });
  }

  /** Rejects when one of the threads cannot sample at the moment. */
  async check(): Promise<void> {
    await Promise.all(this.#ready.map(({ worker }) => worker.check()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map(({ worker }) => worker.close()));
  }

  get #ready(): Thread[] {
    return this.#threads.filter(({ state }) => state === 'ready');
  }

  #choose(prompt: readonly number[]): Thread {
    const ready = this.#ready;
    const least = ready.reduce((best, thread) => (thread.callsInFlight < best.callsInFlight ? thread : best));
    if (least.callsInFlight >= callsPerThread) this.#startNext();
    if (ready.length === 1) return least;
    const hashes = blockHashes(prompt);
    const known = hashes.findLast((hash) => this.#sent.has(hash));
    const last = known === undefined ? undefined : this.#sent.get(known);
    const chosen = last && last.callsInFlight - least.callsInFlight < maxImbalance ? last : least;
    const longest = hashes.at(-1);
    if (longest !== undefined) this.#sent.set(longest, chosen);
    return chosen;
  }

  /** Starts one more thread. Until it is ready, calls go to the others. */
  #startNext(): void {
    const next = this.#threads.find(({ state }) => state !== 'ready');
    if (next?.state !== 'idle') return;
    next.state = 'starting';
    next.worker.running.ready.then(
      () => {
        next.state = 'ready';
      },
      () => {
        next.state = 'idle';
      },
    );
  }
}

/** A hash (FNV-1a, 32 bits) of each part of the prompt that begins at its start and consists of whole blocks. */
function blockHashes(prompt: readonly number[]): number[] {
  const hashes: number[] = [];
  let hash = 0x811c9dc5;
  for (let at = 0; at < prompt.length; at++) {
    hash = Math.imul(hash ^ (prompt[at] as number), 0x01000193);
    if ((at + 1) % blockLength === 0) hashes.push(hash);
  }
  return hashes;
}
