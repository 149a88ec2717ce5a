import type { ChatCompletionChunk, Choice, FinishReason, ToolCall, Usage } from '../contract/index.ts';
import { IncompleteCompletionError } from './errors.ts';

export interface StreamedCompletion {
  id: string;
  model: string;
  choice: Choice;
  promptTokenIds: number[];
  usage: Usage | undefined;
}

/** Puts the chunks of a streamed reply together into the choice that an unstreamed reply would have had. */
export class StreamedChoice {
  #id = '';
  #model = '';
  #content = '';
  readonly #toolCalls: ToolCall[] = [];
  readonly #tokenIds: number[] = [];
  readonly #logprobs: NonNullable<NonNullable<Choice['logprobs']>['content']> = [];
  #promptTokenIds: number[] = [];
  #finishReason: FinishReason | undefined;
  #stopReason: Choice['stop_reason'];
  #sampling: Choice['sampling'];
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
    this.#content += choice.delta.content ?? '';
    for (const delta of choice.delta.tool_calls ?? []) {
      this.#toolCalls[delta.index] ??= { id: '', type: 'function', function: { name: '', arguments: '' } };
      const call = this.#toolCalls[delta.index];
      if (!call) continue;
      call.id += delta.id ?? '';
      call.function.name += delta.function.name ?? '';
      call.function.arguments += delta.function.arguments ?? '';
    }
    for (const id of choice.token_ids ?? []) this.#tokenIds.push(id);
    for (const logprob of choice.logprobs?.content ?? []) this.#logprobs.push(logprob);
    if (choice.sampling) this.#sampling = choice.sampling;
    if (choice.finish_reason) this.#finishReason = choice.finish_reason;
    this.#stopReason = choice.stop_reason ?? this.#stopReason;
  }

  /** @throws IncompleteCompletionError where the stream ended without a finish reason. */
  complete(): StreamedCompletion {
    if (!this.#finishReason) {
      throw new IncompleteCompletionError(this.#model, 'with a stream that ended before the reply did');
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
          ...(this.#toolCalls.length > 0 ? { tool_calls: this.#toolCalls } : {}),
        },
        logprobs: { content: this.#logprobs },
        finish_reason: this.#finishReason,
        ...(this.#stopReason === undefined ? {} : { stop_reason: this.#stopReason }),
        token_ids: this.#tokenIds,
        ...(this.#sampling ? { sampling: this.#sampling } : {}),
      },
    };
  }
}
