import { type ChildProcess, fork } from 'node:child_process';
import { exactText } from '../../../util/exact-json.ts';
import { FairMutex, type Refusal } from '../../../util/fair-mutex.ts';
import type { Caller } from '../../../util/fair-queue.ts';
import { nextMessage } from '../../../util/next-message.ts';
import { LanguageError } from '../../error.ts';
import type { SentTask, TemplateResult, TemplateTask } from './template-process.ts';

/** Limits of a template that comes with a request, besides the length of its source. */
const templateLimits = {
  /** Processor time to parse and render it. */
  timeoutMs: 1000,
  /** Wall-clock time to parse and render it, for a busy machine. */
  maxMs: 30_000,
  /** Longest text that it may write, in UTF-16 code units. */
  characters: 2 ** 20,
  /** Heap of its process. One operation may build a longer string (at most 2^29 characters) before the process ends. */
  heapMegabytes: 64,
};

const startTimeoutMs = 30_000;
/** How long an idle process stays alive. */
const idleMs = 60_000;

/**
 * Runs the templates of requests one at a time, with tenants alternating, in a child process. The process starts when
 * it is needed, and again after it has ended. It does not keep this process alive.
 */
export class TemplateRunner {
  readonly #mutex: FairMutex;
  #process: Promise<ChildProcess> | undefined;
  #idle: NodeJS.Timeout | undefined;

  /** `maxWaiting`: most templates that may wait. One tenant may have as many as slots are free. Default 1024. */
  constructor({ maxWaiting = 1024 } = {}) {
    this.#mutex = new FairMutex({ maxWaiting, maxWaitMs: 30_000, refusal: busy });
  }

  /**
   * Renders within `templateLimits.timeoutMs`, not counting the wait for other templates. Rejects with `templates_busy` if the wait is too
   * long, with `templates_unavailable` if the process does not get to work, and with the signal's reason if that aborts
   * during the wait.
   */
  render(task: TemplateTask, caller?: Caller): Promise<TemplateResult> {
    return this.#mutex.run(() => this.#run(task), caller);
  }

  async #run(task: TemplateTask): Promise<TemplateResult> {
    clearTimeout(this.#idle);
    this.#process ??= this.#start();
    const child = await this.#process;
    child.channel?.ref();
    try {
      return await answerOf(child, task);
    } finally {
      child.channel?.unref();
      this.#idle = setTimeout(() => {
        this.#process = undefined;
        child.kill('SIGKILL');
      }, idleMs).unref();
    }
  }

  #start(): Promise<ChildProcess> {
    const child = fork(moduleUrl, {
      execArgv: [`--max-old-space-size=${templateLimits.heapMegabytes}`, '--max-semi-space-size=8'],
      // A template must not see the service's environment. V8's report of a full heap is not needed.
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const started = ready(child);
    const forget = () => {
      if (this.#process === started) this.#process = undefined;
    };
    child.once('exit', forget);
    child.once('error', forget);
    return started;
  }
}

async function ready(child: ChildProcess): Promise<ChildProcess> {
  if ((await nextMessage(child, { timeoutMs: startTimeoutMs })).type !== 'message')
    throw unavailable('The process that renders templates did not start. Try again.');
  child.unref();
  child.channel?.unref();
  return child;
}

const unavailable = (message: string) => new LanguageError('templates_unavailable', message);

const busy = (why: Refusal) =>
  new LanguageError(
    'templates_busy',
    why === 'share_full'
      ? 'Too many requests of this key with their own chat_template are waiting. Send fewer at a time.'
      : 'Too many requests with their own chat_template are waiting. Try again.',
  );

const moduleUrl = new URL(
  `./template-process${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

async function answerOf(child: ChildProcess, task: TemplateTask): Promise<TemplateResult> {
  const { timeoutMs, maxMs, heapMegabytes, characters } = templateLimits;
  // Errors of `send` need no handling: without the message there is no answer either.
  const sent: SentTask = { source: task.source, variables: exactText(task.variables), characters };
  child.send(sent, () => {});
  const answer = await nextMessage<TemplateResult>(child, { timeoutMs, maxMs });
  if (answer.type === 'message') return answer.message;
  if (answer.type === 'starved')
    throw unavailable('The machine is too busy for the process that renders templates. Try again.');
  // V8 ends a process with a full heap by another signal, so the system or a person ended this one.
  if (!child.killed && child.signalCode === 'SIGKILL')
    throw unavailable('The process that renders templates was ended by the system. Try again.');
  const used =
    answer.type === 'overtime' ? `${timeoutMs} ms of processor time` : `${heapMegabytes} MB of memory`;
  return {
    type: 'failed',
    reason: `the template needs more than ${used}; make its loops and texts shorter`,
  };
}
