import type { Reply } from '../../language/constraint/constraint.ts';
import type { EngineError, TrainingBatch, TrainRequest } from '../engine.ts';
import {
  fromFailure,
  type TrainerCall,
  type TrainerReply,
  type TrainerRequest,
  type WorkerSettings,
} from './threads/worker-messages.ts';
import { engineClosed, Outstanding, WorkerThread, workerModule } from './threads/worker-thread.ts';

/** A message of as many tokens is copied in a few milliseconds, in which nothing else goes on in this thread. */
const tokensOfMessage = 200_000;

/** The trainer's thread, as the rest of the engine uses it. Jobs run one after another. */
export class TrainerClient {
  readonly #thread: WorkerThread<TrainerRequest, TrainerReply>;
  readonly #calls = new Outstanding<unknown>();
  readonly #jobs = new Outstanding<void>();
  #ids = 0;
  /** The thread's end since the job in progress began: with it went what the job had trained. */
  #death: EngineError | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(settings: WorkerSettings) {
    this.#thread = new WorkerThread(workerModule('../trainer/worker'), settings, {
      onReport: (reply) => this.#receive(reply),
      onDeath: (error) => {
        this.#death = error;
        this.#calls.rejectAll(error);
      },
    });
  }

  /**
   * Ends at once by its signal while other jobs are before it, and when the engine is closed. A job that runs ends by
   * its signal within a run of the training graphs; once it is being saved, it is saved.
   */
  async train(request: TrainRequest): Promise<void> {
    const { signal } = request;
    await this.#thread.start();
    signal?.throwIfAborted();
    const id = this.#ids++;
    const job = this.#jobs.wait(id);
    const leave = () => this.#jobs.reject(id, signal?.reason);
    signal?.addEventListener('abort', leave, { once: true });
    this.#turn = this.#turn.then(async () => {
      signal?.removeEventListener('abort', leave);
      try {
        await this.#train(request);
        this.#jobs.resolve(id, undefined);
      } catch (error) {
        this.#jobs.reject(id, error);
      }
    });
    return job;
  }

  async encodeReplies(baseModel: string, replies: Reply[]): Promise<number[][]> {
    return (await this.#call({ type: 'encode', baseModel, replies })) as number[][];
  }

  async start(): Promise<void> {
    await this.#thread.start();
  }

  close(): Promise<void> {
    const closed = this.#thread.close();
    // Also those whose turn has not come, and one that waits for its next batch.
    this.#jobs.rejectAll(engineClosed());
    return closed;
  }

  async #train({ from, folder, batches, onStep, signal }: TrainRequest): Promise<void> {
    signal?.throwIfAborted();
    this.#death = undefined;
    const cancel = () => void this.#thread.send({ type: 'cancel' }).catch(() => undefined);
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      await this.#call({ type: 'begin', from });
      for await (const batch of batches) {
        signal?.throwIfAborted();
        const { first, last } = inMessages(batch.datums, tokensOfMessage);
        for (const datums of first) await this.#call({ type: 'datums', datums });
        const step = { type: 'step', batch: { ...batch, datums: last } } as const;
        onStep((await this.#call(step)) as Record<string, number>);
      }
      signal?.throwIfAborted();
      await this.#call({ type: 'save', folder });
    } catch (error) {
      const death = this.#death;
      await this.#call({ type: 'abandon' }).catch(() => undefined);
      // A thread that ended between two calls has a successor, which knows nothing of the job.
      throw signal?.aborted ? signal.reason : (death ?? error);
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  #call(call: TrainerCall): Promise<unknown> {
    const id = this.#ids++;
    const answer = this.#calls.wait(id);
    this.#thread.send({ ...call, id }).catch((error: unknown) => this.#calls.reject(id, error));
    return answer;
  }

  #receive(reply: TrainerReply): void {
    if ('failure' in reply) this.#calls.reject(reply.id, fromFailure(reply.failure));
    else this.#calls.resolve(reply.id, reply.result);
  }
}

type Datums = TrainingBatch['datums'];

/** The datums of a batch in messages of at most so many tokens, or of one datum; in order. */
export function inMessages(datums: Datums, tokens: number): { first: Datums[]; last: Datums } {
  const first: Datums[] = [];
  let last: Datums = [];
  let count = 0;
  for (const datum of datums) {
    if (last.length > 0 && count + datum.tokens.length > tokens) {
      first.push(last);
      last = [];
      count = 0;
    }
    last.push(datum);
    count += datum.tokens.length;
  }
  return { first, last };
}
