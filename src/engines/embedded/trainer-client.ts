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

/** Tokens in one message: copying it blocks this thread for a few milliseconds. */
const tokensOfMessage = 200_000;

/** Sends calls to the trainer's thread and receives their answers. Jobs run one after another. */
export class TrainerClient {
  readonly #thread: WorkerThread<TrainerRequest, TrainerReply>;
  readonly #calls = new Outstanding<unknown>();
  readonly #jobs = new Outstanding<void>();
  #ids = 0;
  /** Set when the thread has died during the current job, whose training is lost. */
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
   * Trains one job. An aborted signal rejects a waiting job at once, and a running job after the current run of the
   * training graphs; a checkpoint that is being saved is completed. Closing the engine rejects all jobs at once.
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
    // Includes jobs that wait for their start, and a job that waits for its next batch.
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
      // If the thread died between two calls, its successor only reports that no training run has begun.
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

/** Splits the datums of a batch, in order, into messages of at most `tokens` tokens, or of one larger datum. */
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
