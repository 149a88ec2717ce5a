import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { SharedLanguage } from '../language/index.ts';
import type { Refusal } from '../util/fair-mutex.ts';
import type { Caller } from '../util/fair-queue.ts';
import { TaskThread } from '../util/task-thread.ts';
import { RequestValidationError, ServiceError } from './errors.ts';

/** Processor time that one text may take, in milliseconds: 60 MB take about two seconds. */
const timeoutMs = 60_000;
/** A large vocabulary takes some 300 MB, and the largest body about 3 GB. */
const heapMegabytes = 4096;

const module = new URL(`./reading-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);

/** What a thread may do with its tasks. */
type Work = 'text' | 'body' | 'group';

/** A task as the thread gets it. */
export interface SentTask<Task> {
  work: Work;
  task: Task;
  /** Where the thread asks its questions. */
  questions: MessagePort;
}

/** What the thread gets back for a question. */
export type Answer = { answer: unknown } | 'refused';

/** What a thread sends: that it is ready, then what came of each task. */
export type Report<Done> =
  | { type: 'ready' }
  | { type: 'done'; done: Done }
  | ({ type: 'refused'; issues: RequestValidationError['issues'] | null } & Pick<
      ServiceError,
      'status' | 'code' | 'message'
    >)
  | { type: 'failed'; message: string };

interface TaskOptions {
  caller?: Caller | undefined;
  /** Answers a question of the thread. If it throws, the task ends with that error. */
  answer?: (question: unknown) => Promise<unknown>;
}

/** Reads what was sent to the service in a thread, with the errors of reading it here. */
export class ReadingThread<Task, Done> {
  readonly #work: Work;
  /** Names of its input in errors. */
  readonly #name: { one: string; many: string };
  readonly #thread: TaskThread<SentTask<Task>, Report<Done>>;

  /** @param language What the work needs of a base model. Default: nothing. */
  constructor(work: Work, language?: SharedLanguage) {
    this.#work = work;
    this.#name = work === 'group' ? { one: 'group', many: 'groups' } : { one: 'body', many: 'bodies' };
    const refusal = (why: Refusal) =>
      this.#unavailable(
        `Too many ${this.#name.many} ${why === 'share_full' ? 'of this key wait' : 'wait'} to be read.`,
      );
    const options = { module, workerData: language, timeoutMs, heapMegabytes, maxWaiting: 4096, refusal };
    this.#thread = new TaskThread(options);
  }

  /**
   * @param bytes Length of the text, for errors.
   * @throws what the thread's reader throws; ServiceError `…_too_large` for what takes too much time or memory, `…_busy` if
   * too many wait.
   */
  async run(task: Task, bytes: number, { caller, answer }: TaskOptions = {}): Promise<Done> {
    const { port1, port2 } = new MessageChannel();
    let failure: { cause: unknown } | null = null;
    port1.on('message', async (question) => {
      try {
        port1.postMessage({ answer: await answer?.(question) } satisfies Answer);
      } catch (cause) {
        failure = { cause };
        port1.postMessage('refused' satisfies Answer);
      }
    });
    try {
      const sent = { work: this.#work, task, questions: port2 };
      const result = await this.#thread.run(sent, { caller, transfer: [port2] });
      const { one } = this.#name;
      if (result.type === 'unstarted') throw this.#unavailable('The thread that reads it did not start.');
      if (result.type === 'starved') throw this.#unavailable(`The machine is too busy to read a ${one}.`);
      if (result.type !== 'message')
        throw new ServiceError(
          413,
          `${one}_too_large`,
          `Reading the ${one} of ${bytes} bytes takes more than ${timeoutMs} ms or ${heapMegabytes} MB. Send fewer or shorter trajectories.`,
        );
      const { message: report } = result;
      if (report.type === 'done') return report.done;
      if (report.type !== 'refused') throw new Error(report.type === 'failed' ? report.message : report.type);
      const { status, code, message, issues } = report;
      throw issues ? new RequestValidationError(issues) : new ServiceError(status, code, message);
    } catch (error) {
      const { cause } = failure ?? { cause: error };
      throw cause;
    } finally {
      port1.close();
    }
  }

  /** Ends the thread. */
  close(): Promise<void> {
    return this.#thread.close();
  }

  #unavailable(message: string): ServiceError {
    return new ServiceError(503, `${this.#name.many}_busy`, `${message} Try again.`);
  }
}
