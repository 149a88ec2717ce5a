import { type ChildProcess, fork } from 'node:child_process';
import { FairMutex, type Refusal } from '../../../util/fair-mutex.ts';
import type { Caller } from '../../../util/fair-queue.ts';
import { LanguageError } from '../../error.ts';
import {
  type TemplateAnswer,
  type TemplateResult,
  type TemplateTask,
  templateLimits,
} from './template-task.ts';

/** Beyond the template's own time limit, which its process keeps unless it is stuck in one operation. */
const graceMs = 1000;
const startTimeoutMs = 30_000;
/** How long a process without work is kept. */
const idleMs = 60_000;
/** How long a template waits for those before it. */
const patienceMs = 30_000;

/**
 * Runs the templates of requests one after the other, tenants in turn, in a process of their own, which is started
 * when first needed and again after it was ended. It does not keep this process alive.
 */
export class TemplateRunner {
  readonly #mutex: FairMutex;
  #process: Promise<ChildProcess> | undefined;
  #idle: NodeJS.Timeout | undefined;

  /** `longestQueue`: how many templates may wait for their turn, of one tenant as many as are left. Default 1024. */
  constructor({ longestQueue = 1024 }: { longestQueue?: number } = {}) {
    this.#mutex = new FairMutex({
      limit: longestQueue,
      patienceMs,
      refusal: busy,
    });
  }

  /**
   * Takes at most the time that `templateLimits` names, besides waiting for others; where that is too long, a 503.
   * Rejects with the signal's reason when that is aborted while it waits.
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
      return await ask(child, task);
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
      // Nothing of the service's surroundings concerns a template, and what V8 says of a full heap is no news.
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
  if ((await nextAnswer(child, startTimeoutMs))?.type !== 'ready')
    throw unavailable('The process that renders templates did not start; ask again.');
  child.unref();
  child.channel?.unref();
  return child;
}

const unavailable = (message: string) => new LanguageError('templates_unavailable', message);

const busy = (why: Refusal) =>
  new LanguageError(
    'templates_busy',
    why === 'share_full'
      ? 'Too many requests of this key with a chat_template of their own are waiting; send fewer at a time.'
      : 'Too many requests with a chat_template of their own are waiting; ask again.',
  );

const moduleUrl = new URL(
  `./template-process${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

async function ask(child: ChildProcess, task: TemplateTask): Promise<TemplateResult> {
  // Whether it arrives shows in whether an answer does.
  child.send(task, () => {});
  const result = await nextAnswer(child, templateLimits.timeoutMs + graceMs);
  if (result && result.type !== 'ready') return result;
  // V8 ends a process whose heap is full by another signal: this was the system, or a person.
  if (!child.killed && child.signalCode === 'SIGKILL')
    throw unavailable('The process that renders templates was ended by the system; ask again.');
  return {
    type: 'failed',
    reason: `the template needs more than ${templateLimits.heapMegabytes} MB of memory or one operation of more than ${templateLimits.timeoutMs} ms; make its loops and texts shorter`,
  };
}

/** What the process says next; null where it ended first, or was ended for taking too long. */
function nextAnswer(child: ChildProcess, timeoutMs: number): Promise<TemplateAnswer | null> {
  return new Promise((resolve) => {
    const finish = (answer: TemplateAnswer | null) => {
      clearTimeout(timer);
      child.off('message', onMessage);
      child.off('exit', onEnd);
      child.off('error', onEnd);
      resolve(answer);
    };
    const onMessage = (answer: TemplateAnswer) => finish(answer);
    const onEnd = () => finish(null);
    // It resolves once the process is gone, so that the next template finds another.
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    child.on('message', onMessage);
    child.once('exit', onEnd);
    child.once('error', onEnd);
  });
}
