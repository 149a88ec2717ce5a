import { Worker } from 'node:worker_threads';
import { FairMutex, type Refusal } from '../../util/fair-mutex.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { LanguageError } from '../error.ts';
import { type MessageOutcome, nextMessage } from '../next-message.ts';
import type { LongText, LongTextReport } from './long-texts-thread.ts';
import type { SharedLanguage } from './read-language.ts';

/** From this length on, in characters, a text is encoded in a thread: shorter ones take a few milliseconds. */
export const longText = 32_768;

/** Processor time that one text may take, in milliseconds: a megabyte of prose takes half a second. */
const timeoutMs = 5000;
/** On a busy machine, a text may take this many times its own time limit. */
const busyFactor = 8;
const startTimeoutMs = 60_000;
/** The thread ends after as long without a text, to give its memory back. */
const idleMs = 300_000;
/** A large vocabulary takes some 300 MB. */
const heapMegabytes = 2048;

interface Running {
  worker: Worker;
  ready: Promise<MessageOutcome<LongTextReport>>;
}

/**
 * Encodes long texts in a thread, one at a time, with tenants alternating, so that a text of megabytes does not hold up
 * everybody else. The thread starts when it is needed, and again after it has ended.
 */
export class LongTexts {
  readonly #language: SharedLanguage;
  readonly #mutex = new FairMutex({ maxWaiting: 1024, maxWaitMs: 60_000, refusal: busy });
  #running: Running | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(language: SharedLanguage) {
    this.#language = language;
  }

  /**
   * The tokens of a text, as `tokenizer.encode`.
   * @throws LanguageError `context_length_exceeded` for more than `maxTokens`, or a text that takes too long;
   * `texts_busy` if too many wait. The signal's reason if that aborts during the wait.
   */
  encode(
    text: string,
    { maxTokens, caller }: { maxTokens: number; caller?: Caller | undefined },
  ): Promise<Uint32Array> {
    return this.#mutex.run(() => this.#encode({ text, maxTokens }), caller);
  }

  async #encode(task: LongText): Promise<Uint32Array> {
    clearTimeout(this.#idle);
    this.#running ??= this.#start();
    const { worker, ready } = this.#running;
    try {
      return await this.#encodeIn(task, { worker, ready });
    } finally {
      this.#idle = setTimeout(() => this.#end(worker), idleMs).unref();
    }
  }

  async #encodeIn(task: LongText, { worker, ready }: Running): Promise<Uint32Array> {
    if ((await ready).type !== 'message')
      throw new LanguageError('texts_busy', 'The thread that encodes long texts did not start; try again.');
    const answer = nextMessage<LongTextReport>(worker, { timeoutMs, maxMs: busyFactor * timeoutMs });
    worker.postMessage(task);
    const result = await answer;
    if (result.type === 'starved')
      throw new LanguageError('texts_busy', 'The machine is too busy to encode a long text; try again.');
    if (result.type !== 'message')
      throw new LanguageError(
        'context_length_exceeded',
        `A text of the prompt has ${task.text.length} characters, and turning it into tokens takes more than ${timeoutMs} ms or ${heapMegabytes} MB. Shorten the messages.`,
      );
    const { message } = result;
    if (message.type === 'tokens') return message.tokens;
    throw new LanguageError(
      'context_length_exceeded',
      `The prompt has more than ${task.maxTokens} tokens, which is more than its context holds. Shorten the messages.`,
    );
  }

  #end(worker: Worker): void {
    if (this.#running?.worker === worker) this.#running = undefined;
    void worker.terminate();
  }

  #start(): Running {
    const worker = new Worker(threadModule, {
      workerData: this.#language,
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
    });
    // The thread must not keep the program alive: callers that wait have a socket or a timer.
    worker.unref();
    const running = { worker, ready: nextMessage<LongTextReport>(worker, { timeoutMs: startTimeoutMs }) };
    worker.on('error', () => {});
    worker.once('exit', () => {
      if (this.#running === running) this.#running = undefined;
    });
    return running;
  }
}

const threadModule = new URL(
  `./long-texts-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

const busy = (why: Refusal) =>
  new LanguageError(
    'texts_busy',
    why === 'share_full'
      ? 'Too many long prompts of this key are waiting; send fewer at a time.'
      : 'Too many long prompts are waiting; try again.',
  );
