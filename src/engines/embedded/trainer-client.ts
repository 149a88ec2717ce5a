import type { Reply, TrainRequest } from '../engine.ts';
import { fromFailure } from './worker-failure.ts';
import type { TrainerCall, TrainerReply, TrainerRequest, WorkerSettings } from './worker-messages.ts';
import { workerModule } from './worker-module.ts';
import { WorkerThread } from './worker-thread.ts';

interface Waiting {
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

/** The trainer's thread, as the rest of the engine uses it. Jobs run one after another. */
export class TrainerClient {
  readonly #thread: WorkerThread<TrainerRequest, TrainerReply>;
  readonly #waiting = new Map<number, Waiting>();
  #ids = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(settings: WorkerSettings) {
    this.#thread = new WorkerThread(workerModule('./trainer/worker'), settings, {
      onReport: (reply) => this.#receive(reply),
      onDeath: (error) => {
        for (const { reject } of this.#waiting.values()) reject(error);
        this.#waiting.clear();
      },
    });
  }

  train(request: TrainRequest): Promise<void> {
    const turn = this.#turn.then(() => this.#train(request));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async encodeReplies(baseModel: string, replies: Reply[]): Promise<number[][]> {
    return (await this.#call({ type: 'encode', baseModel, replies })) as number[][];
  }

  async start(): Promise<void> {
    await this.#thread.start();
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  async #train({ from, folder, batches, onStep, signal }: TrainRequest): Promise<void> {
    signal?.throwIfAborted();
    await this.#call({ type: 'begin', from });
    try {
      for await (const batch of batches) {
        signal?.throwIfAborted();
        onStep((await this.#call({ type: 'step', batch })) as Record<string, number>);
      }
      signal?.throwIfAborted();
      await this.#call({ type: 'save', folder });
    } catch (error) {
      await this.#call({ type: 'abandon' }).catch(() => undefined);
      throw error;
    }
  }

  #call(call: TrainerCall): Promise<unknown> {
    const id = this.#ids++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#thread.send({ ...call, id }).catch((error: unknown) => {
        this.#waiting.delete(id);
        reject(error);
      });
    });
  }

  #receive(reply: TrainerReply): void {
    const waiting = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if ('failure' in reply) waiting?.reject(fromFailure(reply.failure));
    else waiting?.resolve(reply.result);
  }
}
