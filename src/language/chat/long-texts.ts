import type { Refusal } from '../../util/fair-mutex.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { TaskThread } from '../../util/task-thread.ts';
import { LanguageError } from '../error.ts';
import type { LongText, LongTextReport } from './long-texts-thread.ts';
import type { SharedLanguage } from './read-language.ts';

/** From this length on, in characters, a text is encoded in a thread: shorter ones take a few milliseconds. */
export const longText = 32_768;

/** Processor time that one text may take, in milliseconds: a megabyte of prose takes half a second. */
const timeoutMs = 5000;
/** A large vocabulary takes some 300 MB. */
const heapMegabytes = 2048;

/** Encodes long texts in a thread, so that a text of megabytes does not hold up everybody else. */
export class LongTexts {
  readonly #thread: TaskThread<LongText, LongTextReport>;

  constructor(language: SharedLanguage) {
    const limits = { timeoutMs, heapMegabytes, maxWaiting: 1024, refusal: busy };
    this.#thread = new TaskThread({ module: threadModule, workerData: language, ...limits });
  }

  /**
   * The tokens of a text, as `tokenizer.encode`.
   * @throws LanguageError `context_length_exceeded` for more than `maxTokens`, or a text that takes too long;
   * `texts_busy` if too many wait. The signal's reason if that aborts during the wait.
   */
  async encode(
    text: string,
    { maxTokens, caller }: { maxTokens: number; caller?: Caller | undefined },
  ): Promise<Uint32Array> {
    const result = await this.#thread.run({ text, maxTokens }, { caller });
    if (result.type === 'unstarted')
      throw new LanguageError('texts_busy', 'The thread that encodes long texts did not start. Try again.');
    if (result.type === 'starved')
      throw new LanguageError('texts_busy', 'The machine is too busy to encode a long text. Try again.');
    if (result.type !== 'message')
      throw new LanguageError(
        'context_length_exceeded',
        `A text of the prompt has ${text.length} characters, and turning it into tokens takes more than ${timeoutMs} ms or ${heapMegabytes} MB. Shorten the messages.`,
      );
    const { message } = result;
    if (message.type === 'tokens') return message.tokens;
    throw new LanguageError(
      'context_length_exceeded',
      `The prompt has more than ${maxTokens} tokens, which is more than its context holds. Shorten the messages.`,
    );
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
      ? 'Too many long prompts of this key are waiting. Send fewer at a time.'
      : 'Too many long prompts are waiting. Try again.',
  );
