import type { Weights } from '../../engine.ts';
import type { BaseModels } from '../base-models.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import { Random } from '../random.ts';
import type { Runtime } from '../runtime.ts';
import {
  type SamplingCall,
  toFailure,
  type WorkerAnswer,
  type WorkerSettings,
} from '../threads/worker-messages.ts';
import type { Answer } from './answer.ts';
import { BeamSearch } from './beam-search.ts';
import type { Pool } from './pool.ts';
import { Pools } from './pools.ts';
import { PromptScores } from './prompt-scores.ts';
import { Sequence } from './sequence.ts';

/**
 * Shortest interval between the deltas of a stream, after its first: `least`, and `perStream` for each stream of this
 * thread. One message for each token would cost the sampling thread a quarter of its time, and with hundreds of streams
 * the service's thread more than everything else.
 */
const deltaIntervalMs = { least: 5, perStream: 0.1 };

interface Call {
  /** Whether it gets deltas; `hasBegun` is true after the first. */
  stream: boolean;
  hasBegun: boolean;
  isCancelled: boolean;
  /** Null while its weights are being loaded. */
  running: { answer: Answer; pool: Pool } | null;
}

interface SamplerSources {
  models: BaseModels;
  codecOf: (baseModel: string) => ConversationCodec;
}

/** Answers calls to sample, search and score. Each set of weights has a pool, and the pools step in turn. */
export class Sampler {
  readonly #sources: SamplerSources;
  readonly #pools: Pools;
  readonly #calls = new Map<number, Call>();
  /** Streams that have had their first delta. */
  #streams = 0;
  #deltasDue = false;
  #deltasSentAt = 0;

  constructor(
    runtime: Runtime,
    settings: Pick<WorkerSettings, 'largestBatch' | 'prefixCacheBytes'>,
    sources: SamplerSources,
  ) {
    this.#sources = sources;
    this.#pools = new Pools(runtime, sources.models, settings);
  }

  get busy(): boolean {
    return this.#pools.ready.some((pool) => !pool.idle);
  }

  /** Queues a call. It joins the next step once its weights are loaded. */
  async add(id: number, request: SamplingCall): Promise<void> {
    const stream = request.type === 'generate' && request.stream;
    const call: Call = { stream, hasBegun: false, isCancelled: false, running: null };
    this.#calls.set(id, call);
    try {
      const start = this.#prepare(request, this.#sources.codecOf(request.request.weights.baseModel));
      await this.#pools.open(request.request.weights, (pool) => {
        if (call.isCancelled) return;
        const answer = start(pool);
        answer.id = id;
        call.running = { answer, pool };
      });
    } finally {
      if (!call.running) this.#calls.delete(id);
    }
  }

  cancel(id: number): void {
    const call = this.#calls.get(id);
    if (!call) return;
    call.isCancelled = true;
    call.running?.pool.cancel(call.running.answer);
  }

  cancelAll(): void {
    for (const id of this.#calls.keys()) this.cancel(id);
  }

  /** Takes one step of every pool that is not idle. */
  async step(): Promise<WorkerAnswer[]> {
    const answers: WorkerAnswer[] = [];
    const now = performance.now();
    const interval = Math.max(deltaIntervalMs.least, this.#streams * deltaIntervalMs.perStream);
    this.#deltasDue = now - this.#deltasSentAt >= interval;
    if (this.#deltasDue) this.#deltasSentAt = now;
    const busy = this.#pools.ready.filter((pool) => !pool.idle);
    for (const pool of busy) {
      try {
        for (const answer of await pool.step(busy.length)) this.#report(answer, answers);
      } catch (error) {
        this.#fail(pool, error, answers);
      }
    }
    this.#pools.sweep();
    return answers;
  }

  /** Loads weights that are about to be sampled from. */
  load(weights: Weights): Promise<void> {
    return this.#pools.open(weights, () => undefined);
  }

  /** Releases weights as soon as nothing samples from them. */
  drop(weights: Weights): void {
    this.#pools.drop(weights);
  }

  /** Releases all weights. No step may be in progress. */
  close(): Promise<void> {
    return this.#pools.close();
  }

  /** Checks a call, and returns a function that adds its answer to a pool. */
  #prepare(call: SamplingCall, codec: ConversationCodec): (pool: Pool) => Answer {
    if (call.type === 'score')
      return (pool) => {
        const scores = new PromptScores(call.request, codec.tokenizer.vocabularySize);
        pool.score(scores, call.request);
        return scores;
      };
    const { request } = call;
    const seed = call.type === 'generate' ? call.request.seed : 0;
    const random = new Random(seed ?? Math.floor(Math.random() * Number.MAX_SAFE_INTEGER));
    const compiled = request.plan && codec.compiler.assemble(request.plan);
    return (pool) => {
      const constraint = compiled ? compiled.start() : null;
      const sequence = new Sequence(request, { codec, constraint, random });
      const answer = call.type === 'generate' ? sequence : new BeamSearch(sequence, call.request);
      pool.add(answer, request);
      return answer;
    };
  }

  /** Adds what is to be sent of an answer. If that throws, only this answer fails. */
  #report(answer: Answer, answers: WorkerAnswer[]): void {
    const { id } = answer;
    const call = this.#calls.get(id);
    if (!call) return;
    try {
      const isDue = answer.ended || !call.hasBegun || this.#deltasDue;
      const isNeeded = !answer.cancelled && answer.failure === undefined;
      if (call.stream && isDue && isNeeded && answer instanceof Sequence) {
        const delta = answer.takeDelta();
        if (!call.hasBegun && delta.tokens.length > 0) {
          call.hasBegun = true;
          this.#streams++;
        }
        if (delta.tokens.length > 0 || answer.ended) answers.push({ id, delta });
      }
      if (!answer.ended) return;
      this.#forget(answer);
      if (isNeeded) answers.push({ id, result: answer.finish() });
      else if (!answer.cancelled) answers.push({ id, failure: toFailure(answer.failure) });
    } catch (error) {
      answer.cancel();
      this.#forget(answer);
      answers.push({ id, failure: toFailure(error) });
    }
  }

  /** Discards a pool whose step threw: its answers fail, and the next request loads the weights again. */
  #fail(pool: Pool, error: unknown, answers: WorkerAnswer[]): void {
    this.#pools.discard(pool);
    for (const [id, { running }] of this.#calls) {
      if (running?.pool !== pool) continue;
      this.#forget(running.answer);
      answers.push({ id, failure: toFailure(error) });
    }
  }

  #forget(answer: Answer): void {
    if (this.#calls.get(answer.id)?.hasBegun) this.#streams--;
    this.#calls.delete(answer.id);
  }
}
