import { once } from 'node:events';
import { MessageChannel, type MessagePort, parentPort } from 'node:worker_threads';
import type { SharedLanguage } from '../language/chat/read-language.ts';
import { LanguageError } from '../language/error.ts';
import { TaskThread } from '../language/task-thread.ts';
import type { Refusal } from '../util/fair-mutex.ts';
import type { Caller } from '../util/fair-queue.ts';
import { fromLanguage, RequestValidationError, ServiceError } from './errors.ts';

/** Processor time that one text may take, in milliseconds: 60 MB take about two seconds. */
const timeoutMs = 60_000;
/** A large vocabulary takes some 300 MB, and the largest body about 3 GB. */
const heapMegabytes = 4096;

const module = new URL(`./reading-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);

/** What a thread reads, as errors call it. */
const names = {
  text: { one: 'body', many: 'bodies' },
  body: { one: 'body', many: 'bodies' },
  group: { one: 'group', many: 'groups' },
};

/** What a thread does with its tasks. */
type WorkName = keyof typeof names;

interface Task<Sent> {
  work: WorkName;
  task: Sent;
  /** Where the thread asks its questions. */
  questions: MessagePort;
}

/** What a thread sends: that it is ready, then what came of each task. */
type Report<Done> =
  | { type: 'ready' }
  | { type: 'done'; done: Done }
  | {
      type: 'refused';
      refusal: Pick<ServiceError, 'status' | 'code' | 'message'>;
      issues: RequestValidationError['issues'] | null;
    }
  | { type: 'failed'; message: string };

interface TaskOptions {
  caller?: Caller | undefined;
  /** Answers a question of the thread. If it throws, the task ends with that error. */
  answer?: (question: unknown) => Promise<unknown>;
}

/** Reads what was sent to the service in a thread, with the errors of reading it here. */
export class ReadingThread<Sent, Done> {
  readonly #work: WorkName;
  readonly #thread: TaskThread<Task<Sent>, Report<Done>>;

  /** @param language What the work needs of a base model. Default: nothing. */
  constructor(work: WorkName, language?: SharedLanguage) {
    this.#work = work;
    const name = names[work];
    const refusal = (why: Refusal) =>
      this.#unavailable(
        `Too many ${name.many} ${why === 'share_full' ? 'of this key wait' : 'wait'} to be read.`,
      );
    const options = { module, workerData: language, timeoutMs, heapMegabytes, maxWaiting: 4096, refusal };
    this.#thread = new TaskThread(options);
  }

  /**
   * @param bytes Length of the text, for errors.
   * @throws what the thread's reader throws; ServiceError `…_too_large` for what takes too much time or memory, `…_busy` if
   * too many wait.
   */
  async run(task: Sent, bytes: number, { caller, answer }: TaskOptions = {}): Promise<Done> {
    const { port1, port2 } = new MessageChannel();
    let failure: { cause: unknown } | null = null;
    port1.on('message', async (question) => {
      try {
        port1.postMessage({ answer: await answer?.(question) });
      } catch (cause) {
        failure = { cause };
        port1.postMessage({ isRefused: true });
      }
    });
    try {
      const result = await this.#thread.run(
        { work: this.#work, task, questions: port2 },
        { caller, transfer: [port2] },
      );
      const { one } = names[this.#work];
      if (result.type === 'unstarted') throw this.#unavailable(`The thread that reads it did not start.`);
      if (result.type === 'starved') throw this.#unavailable(`The machine is too busy to read a ${one}.`);
      if (result.type !== 'message')
        throw new ServiceError(
          413,
          `${one}_too_large`,
          `Reading the ${one} of ${bytes} bytes takes more than ${timeoutMs} ms or ${heapMegabytes} MB. Send fewer or shorter trajectories.`,
        );
      return doneOf(result.message);
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
    return new ServiceError(503, `${names[this.#work].many}_busy`, `${message} Try again.`);
  }
}

function doneOf<Done>(report: Report<Done>): Done {
  if (report.type === 'done') return report.done;
  if (report.type !== 'refused') throw new Error(report.type === 'failed' ? report.message : report.type);
  const { refusal, issues } = report;
  throw issues
    ? new RequestValidationError(issues)
    : new ServiceError(refusal.status, refusal.code, refusal.message);
}

/** Asks the thread that sent a task. */
export type Ask = (question: unknown) => Promise<unknown>;

/** Does a task. Also gives the buffers that go with what is done. */
type Work = (task: never, ask: Ask) => Promise<{ done: unknown; buffers: ArrayBuffer[] }>;

/** Works off the tasks of this thread. */
export function workOff(works: Readonly<Record<WorkName, Work>>): void {
  const port = parentPort;
  if (!port) throw new Error('this module runs in a worker thread');
  port.on('message', async ({ work, task, questions }: Task<never>) => {
    const ask = async (question: unknown) => {
      const answered = once(questions, 'message');
      questions.postMessage(question);
      const [{ answer, isRefused }] = await answered;
      if (isRefused) throw new Error('the task was refused');
      return answer;
    };
    try {
      const { done, buffers } = await works[work](task, ask);
      port.postMessage({ type: 'done', done } satisfies Report<unknown>, buffers);
    } catch (error) {
      port.postMessage(reportOf(error));
    } finally {
      questions.close();
    }
  });
  port.postMessage({ type: 'ready' } satisfies Report<unknown>);
}

function reportOf(cause: unknown): Report<never> {
  const error = cause instanceof LanguageError ? fromLanguage(cause) : cause;
  if (!(error instanceof ServiceError)) return { type: 'failed', message: String(error) };
  const { status, code, message } = error;
  const issues = error instanceof RequestValidationError ? error.issues : null;
  return { type: 'refused', refusal: { status, code, message }, issues };
}
