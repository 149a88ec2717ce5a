import { randomUUID } from 'node:crypto';
import type { ChatCompletion, ChatCompletionRequest } from '../contract/index.ts';
import { checkArgument, checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { ModelHandle } from './model-handle.ts';
import { type RecordedAnswer, ReplaySource } from './replay-source.ts';

/** What a scripted model answers: a text, or calls of tools with their arguments as values. */
export type ScriptedReply =
  | string
  | { text?: string; toolCalls?: readonly { name: string; arguments: unknown }[] };

export interface ScriptedModelOptions {
  /** Name in records and reports. Default `scripted`. */
  name?: string;
}

/**
 * A function in place of a model, for tests and for fixed players of a seat: it answers each request, without a model,
 * key or network. It is called like any other model, through `languageModel` and `endpoint()`, streamed or not; its calls
 * are recorded with made-up token ids, so they can be scored and compared, and must not be trained on.
 *
 * @param reply Gets the request as it would be sent to the service. An error that it throws fails the call.
 */
export function scriptedModel(
  reply: (request: ChatCompletionRequest) => ScriptedReply,
  options: ScriptedModelOptions = {},
): ModelHandle {
  checkOptionNames('scriptedModel()', options, { name: true } satisfies OptionNames<ScriptedModelOptions>);
  checkArgument('reply', reply, 'function');
  const { name = 'scripted' } = options;
  return new ModelHandle({ name, completions: new ScriptedSource(reply) });
}

class ScriptedSource extends ReplaySource {
  readonly #reply: (request: ChatCompletionRequest) => ScriptedReply;

  constructor(reply: (request: ChatCompletionRequest) => ScriptedReply) {
    super();
    this.#reply = reply;
  }

  protected override take(request: ChatCompletionRequest): RecordedAnswer {
    const answer = this.#reply(request);
    if (answer instanceof Promise)
      throw new TypeError(
        'The function of a scripted model returned a promise: it must return the reply itself.',
      );
    const { text = null, toolCalls = [] } = typeof answer === 'string' ? { text: answer } : answer;
    const completion: ChatCompletion = {
      id: `chatcmpl-${randomUUID()}`,
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      model: request.model ?? 'scripted',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: text,
            ...(toolCalls.length > 0
              ? {
                  tool_calls: toolCalls.map(({ name, arguments: values }) => ({
                    id: `call_${randomUUID()}`,
                    type: 'function',
                    function: { name, arguments: JSON.stringify(values) },
                  })),
                }
              : {}),
          },
          finish_reason: toolCalls.length > 0 ? 'tool_calls' : 'stop',
          token_ids: [0],
          logprobs: { content: [{ token: '', logprob: 0, top_logprobs: [] }] },
        },
      ],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      prompt_token_ids: [0],
    };
    return { completion };
  }
}
