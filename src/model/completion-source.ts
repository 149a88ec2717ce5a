import type { CallOptions, StreamedChatRequest, WholeChatRequest } from '../client/index.ts';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  Choice,
  FinishReason,
  ToolCall,
  Usage,
} from '../contract/index.ts';
import { incompleteCompletion } from './model-error.ts';

/** Answers chat requests: the client's `chat.completions`, or a record of earlier calls. */
export interface CompletionSource {
  create(request: WholeChatRequest, options?: CallOptions): Promise<ChatCompletion>;
  create(
    request: StreamedChatRequest,
    options?: CallOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
}

interface StreamedCompletion {
  id: string;
  model: string;
  choice: Choice;
  promptTokenIds: number[];
  usage: Usage | undefined;
}

type Text = string | null | undefined;

/** Assembles the chunks of a streamed reply into the choice of an unstreamed reply. */
export class StreamedChoice {
  #id = '';
  #model = '';
  #content = '';
  /** Absent if no chunk had the field; null if every chunk with the field had null. */
  readonly #texts: { reasoning?: Text; reasoning_content?: Text; refusal?: Text } = {};
  readonly #toolCalls: ToolCall[] = [];
  #tokenIds: number[] | undefined;
  #tokenLogprobs: number[] | undefined;
  #tokenTexts: string[] | undefined;
  #logprobs: NonNullable<NonNullable<Choice['logprobs']>['content']> | undefined;
  #promptTokenIds: number[] = [];
  #finishReason: FinishReason | undefined;
  /** Fields of the whole choice; the last chunk that has one wins. */
  readonly #whole: Pick<Choice, 'stop_reason' | 'stop_string' | 'sampling' | 'prompt_token_ids'> = {};
  #usage: Usage | undefined;

  get toolCalls(): readonly ToolCall[] {
    return this.#toolCalls;
  }

  add(chunk: ChatCompletionChunk): void {
    this.#id = chunk.id;
    this.#model = chunk.model;
    if (chunk.usage) this.#usage = chunk.usage;
    if (chunk.prompt_token_ids) this.#promptTokenIds = chunk.prompt_token_ids;
    const choice = chunk.choices[0];
    if (!choice) return;
    this.#addDelta(choice.delta);
    if (choice.token_ids) this.#tokenIds ??= [];
    for (const id of choice.token_ids ?? []) this.#tokenIds?.push(id);
    const { token_logprobs, token_texts } = choice;
    if (token_logprobs) this.#tokenLogprobs ??= [];
    for (const logprob of token_logprobs ?? []) this.#tokenLogprobs?.push(logprob);
    if (token_texts) this.#tokenTexts ??= [];
    for (const piece of token_texts ?? []) this.#tokenTexts?.push(piece);
    if (choice.logprobs?.content) this.#logprobs ??= [];
    for (const logprob of choice.logprobs?.content ?? []) this.#logprobs?.push(logprob);
    if (choice.finish_reason) this.#finishReason = choice.finish_reason;
    const { stop_reason, stop_string, sampling, prompt_token_ids } = choice;
    if (stop_reason !== undefined) this.#whole.stop_reason = stop_reason ?? this.#whole.stop_reason ?? null;
    if (stop_string) this.#whole.stop_string = stop_string;
    if (sampling) this.#whole.sampling = sampling;
    if (prompt_token_ids) this.#whole.prompt_token_ids = prompt_token_ids;
  }

  #addDelta(delta: ChatCompletionChunk['choices'][number]['delta']): void {
    this.#content += delta.content ?? '';
    for (const name of ['reasoning', 'reasoning_content', 'refusal'] as const) {
      const piece = delta[name];
      if (piece === undefined) continue;
      this.#texts[name] = piece === null ? (this.#texts[name] ?? null) : (this.#texts[name] ?? '') + piece;
    }
    for (const { index, id, function: called } of delta.tool_calls ?? []) {
      this.#toolCalls[index] ??= { id: '', type: 'function', function: { name: '', arguments: '' } };
      const call = this.#toolCalls[index];
      if (!call) continue;
      call.id += id ?? '';
      call.function.name += called.name ?? '';
      call.function.arguments += called.arguments ?? '';
    }
  }

  /** @throws ModelError of code `incomplete_completion` if the stream ended without a finish reason. */
  complete(): StreamedCompletion {
    if (!this.#finishReason) {
      throw incompleteCompletion(this.#model, 'with a stream that ended before the reply did');
    }
    return {
      id: this.#id,
      model: this.#model,
      promptTokenIds: this.#promptTokenIds,
      usage: this.#usage,
      choice: {
        index: 0,
        message: {
          role: 'assistant',
          content: this.#content === '' && this.#toolCalls.length > 0 ? null : this.#content,
          ...this.#texts,
          ...(this.#toolCalls.length > 0 ? { tool_calls: this.#toolCalls } : {}),
        },
        logprobs: this.#logprobs ? { content: this.#logprobs } : null,
        finish_reason: this.#finishReason,
        ...(this.#tokenIds ? { token_ids: this.#tokenIds } : {}),
        ...(this.#tokenLogprobs ? { token_logprobs: this.#tokenLogprobs } : {}),
        ...(this.#tokenTexts ? { token_texts: this.#tokenTexts } : {}),
        ...this.#whole,
      },
    };
  }
}
