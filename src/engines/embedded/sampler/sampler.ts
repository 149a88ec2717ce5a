import type { GenerateRequest, Weights } from '../../engine.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import { BeamSearch } from '../extensions/beam-search.ts';
import { PromptScores } from '../extensions/prompt-scores.ts';
import { Random } from '../random.ts';
import type { Runtime } from '../runtime.ts';
import type { SamplerCall, SamplerReport, WorkerSettings } from '../threads/worker-messages.ts';
import { toFailure } from '../threads/worker-messages.ts';
import type { Answer, Pool } from './pool.ts';
import { Pools } from './pools.ts';
import { Sequence } from './sequence.ts';

/**
 * Shortest interval between the deltas of a stream, after its first. One message for each token would cost the sampling
 * thread a quarter of its time.
 */
const deltaIntervalMs = 5;

interface Listener {
  id: number;
  /** Whether it gets deltas; `begun` is true after the first. */
  stream: boolean;
  begun: boolean;
  pool: Pool;
}

/** Answers requests to sample, search and score. Each set of weights has a pool, and the pools step in turn. */
export class Sampler {
  readonly #codec: ConversationCodec;
  readonly #pools: Pools;
  readonly #listeners = new Map<Answer, Listener>();
  readonly #byId = new Map<number, Answer>();
  #deltasDue = false;
  /** When deltas were last sent. */
  #deltasTold = 0;
  /** Requests whose weights are being loaded; false once cancelled. */
  readonly #preparing = new Map<number, boolean>();

  constructor(
    runtime: Runtime,
    settings: Pick<WorkerSettings, 'largestBatch' | 'prefixCacheBytes'>,
    codec: ConversationCodec,
  ) {
    this.#codec = codec;
    this.#pools = new Pools(runtime, settings);
  }

  get busy(): boolean {
    return this.#pools.ready.some((pool) => !pool.idle);
  }

  /** Queues a request. It joins the next step once its weights are loaded. */
  async add(id: number, call: SamplerCall): Promise<void> {
    this.#preparing.set(id, true);
    try {
      const wanted = () => this.#preparing.get(id) === true;
      const prepared = this.#prepare(call);
      await this.#pools.open(call.request.weights, (pool) => {
        if (!wanted()) return;
        const answer = prepared(pool);
        this.#listeners.set(answer, {
          id,
          stream: call.type === 'generate' && call.stream,
          begun: false,
          pool,
        });
        this.#byId.set(id, answer);
      });
    } finally {
      this.#preparing.delete(id);
    }
  }

  cancel(id: number): void {
    const answer = this.#byId.get(id);
    const pool = answer && this.#listeners.get(answer)?.pool;
    if (pool) pool.cancel(answer);
    else if (this.#preparing.has(id)) this.#preparing.set(id, false);
  }

  cancelAll(): void {
    for (const id of [...this.#byId.keys(), ...this.#preparing.keys()]) this.cancel(id);
  }

  /** Takes one step of every pool that is not idle. */
  async step(): Promise<SamplerReport> {
    const report = emptyReport();
    const now = performance.now();
    this.#deltasDue = now - this.#deltasTold >= deltaIntervalMs;
    if (this.#deltasDue) this.#deltasTold = now;
    const busy = this.#pools.ready.filter((pool) => !pool.idle);
    for (const pool of busy) {
      try {
        for (const answer of await pool.step(busy.length)) this.#tellOrFail(answer, report);
      } catch (error) {
        this.#fail(pool, error, report);
      }
    }
    this.#pools.sweep();
    return report;
  }

  /** Releases weights as soon as nothing samples from them. */
  drop(weights: Weights): void {
    this.#pools.drop(weights);
  }

  /** Releases all weights. No step may be in progress. */
  close(): Promise<void> {
    return this.#pools.close();
  }

  /** Checks a request, and returns a function that adds it to its pool. */
  #prepare(call: SamplerCall): (pool: Pool) => Answer {
    if (call.type === 'score')
      return (pool) => {
        const scores = new PromptScores(call.request);
        pool.score(scores);
        return scores;
      };
    const { request } = call;
    const random = new Random(call.type === 'generate' ? seedOf(call.request) : 0);
    const compiled = request.plan && this.#codec.assemble(request.plan);
    return (pool) => {
      const constraint = compiled ? compiled.start() : null;
      const sequence = new Sequence(request, { codec: this.#codec, constraint, random });
      if (call.type === 'generate') {
        pool.add(sequence, request);
        return sequence;
      }
      const search = new BeamSearch(sequence, call.request);
      pool.search(search, sequence, request);
      return search;
    };
  }

  /** If reporting an answer throws, only that answer fails. */
  #tellOrFail(answer: Answer, report: SamplerReport): void {
    const listener = this.#listeners.get(answer);
    if (!listener) return;
    try {
      this.#tell(answer, listener, report);
    } catch (error) {
      answer.cancel();
      this.#forget(answer, listener.id);
      report.failed.push({ id: listener.id, failure: toFailure(error) });
    }
  }

  #tell(answer: Answer, listener: Listener, report: SamplerReport): void {
    const { id, stream } = listener;
    const due = answer.ended || !listener.begun || this.#deltasDue;
    if (stream && due && answer instanceof Sequence && !answer.cancelled && answer.failure === undefined) {
      const delta = answer.takeDelta();
      listener.begun ||= delta.tokens.length > 0;
      if (delta.tokens.length > 0 || answer.ended) report.deltas.push({ id, delta });
    }
    if (!answer.ended) return;
    this.#forget(answer, id);
    if (answer.cancelled) return;
    if (answer.failure !== undefined) report.failed.push({ id, failure: toFailure(answer.failure) });
    else report.finished.push({ id, result: answer.finish() });
  }

  /** Discards a pool whose step threw: its answers fail, and the next request loads the weights again. */
  #fail(pool: Pool, error: unknown, report: SamplerReport): void {
    this.#pools.discard(pool);
    for (const [answer, { id, pool: own }] of [...this.#listeners]) {
      if (own !== pool) continue;
      this.#forget(answer, id);
      report.failed.push({ id, failure: toFailure(error) });
    }
  }

  #forget(answer: Answer, id: number): void {
    this.#listeners.delete(answer);
    this.#byId.delete(id);
    answer.dispose();
  }
}

export function emptyReport(): SamplerReport {
  return { deltas: [], finished: [], failed: [] };
}

function seedOf({ seed }: Pick<GenerateRequest, 'seed'>): number | bigint {
  return seed ?? Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
}
