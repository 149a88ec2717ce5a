import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  Choice,
} from '../../src/contract/index.ts';
import type { CompletionSource } from '../../src/model/index.ts';
import type { Sampled } from './exact.ts';
import { render } from './fake-service.ts';

export interface ScriptedReply {
  text: string;
  /** Literal arguments of a call of the tool `look`; null for no call. */
  call: string | null;
}

/**
 * Samples in this process what a script says, and remembers it by the prompt it was sampled after. Each call is
 * answered when `release` comes to it.
 */
export class ScriptedCompletions {
  readonly sampled: Sampled[] = [];
  readonly #model: string;
  readonly #waiting: (() => void)[] = [];
  #calls = 0;
  #arrived: (() => void) | undefined;
  #script: ScriptedReply[] = [];

  constructor(model: string) {
    this.#model = model;
  }

  /** The replies for the next calls, in order of arrival. */
  set script(replies: ScriptedReply[]) {
    this.#script = [...replies];
  }

  /** Waits until all these calls have arrived, then answers them one by one in this order. */
  async release(order: readonly number[], settled: readonly PromiseLike<unknown>[]): Promise<void> {
    while (this.#waiting.length < order.length) {
      await new Promise<void>((resolve) => {
        this.#arrived = resolve;
      });
    }
    const waiting = this.#waiting.splice(0);
    for (const at of order) {
      waiting[at]?.();
      await settled[at];
    }
  }

  get source(): CompletionSource {
    const create = async (request: ChatCompletionRequest): Promise<ChatCompletion> => {
      const { text, call } = this.#script.shift() ?? { text: '', call: null };
      const id = `call_${this.#calls++}`;
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
        this.#arrived?.();
      });
      return this.#answer(request, { text, call, id });
    };
    return {
      create: (request) =>
        create(request) as Promise<ChatCompletion & AsyncIterableIterator<ChatCompletionChunk>>,
    };
  }

  #answer(
    { messages }: ChatCompletionRequest,
    { text, call, id }: ScriptedReply & { id: string },
  ): ChatCompletion {
    const prompt = render(messages);
    const written = `${text}${call === null ? '' : `<${call}>`}`;
    const token_ids = [...[...written].map((character) => character.codePointAt(0) ?? 0), 1_000_000];
    this.sampled.push({ prompt, tokens: token_ids });
    const choice: Choice = {
      index: 0,
      message: {
        role: 'assistant',
        content: text === '' && call !== null ? null : text,
        ...(call === null
          ? {}
          : { tool_calls: [{ id, type: 'function', function: { name: 'look', arguments: call } }] }),
      },
      finish_reason: call === null ? 'stop' : 'tool_calls',
      token_ids,
    };
    return {
      ...{
        id: `chatcmpl-${id}`,
        object: 'chat.completion',
        created: 0,
        model: this.#model,
        choices: [choice],
      },
      usage: {
        prompt_tokens: prompt.length,
        completion_tokens: token_ids.length,
        total_tokens: prompt.length + token_ids.length,
      },
      prompt_token_ids: prompt,
    };
  }
}
