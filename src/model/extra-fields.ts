import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import { type ChatCompletionRequest, chatCompletionRequestSchema } from '../contract/index.ts';
import { UnsupportedByModelError } from './errors.ts';
import { providerName } from './prompt-messages.ts';

type Fields = readonly (keyof ChatCompletionRequest)[];

/** Set by the model itself: without them a call could not be recorded. */
const reserved: Fields = [
  'messages',
  'model',
  'n',
  'stream',
  'stream_options',
  'logprobs',
  'return_token_ids',
];

/** Make choices that are no samples of the policy. */
const untrainable: Fields = ['use_beam_search', 'length_penalty'];

/** Fields that the AI SDK has settings for: given twice, one of the two would be ignored. */
const ownSettings: Fields = [
  ...(['temperature', 'top_p', 'top_k', 'max_tokens', 'max_completion_tokens', 'stop', 'seed'] as const),
  ...(['presence_penalty', 'frequency_penalty', 'reasoning_effort', 'response_format'] as const),
  ...(['tools', 'tool_choice', 'function_call'] as const),
];

const remedies: [Fields, string][] = [
  [reserved, 'The model sets it itself, so that each call is recorded exactly.'],
  [
    untrainable,
    'A reply that beam search found is no sample of the policy and cannot be trained on; ask for it with ' +
      '`client.chat.completions.create`.',
  ],
  [ownSettings, 'Give it to the AI SDK, which has a setting for it.'],
];

const known: ReadonlySet<string> = new Set(Object.keys(chatCompletionRequestSchema.shape));

/**
 * Fields of a chat request that the AI SDK has no setting for, from `providerOptions.martingale` under the
 * interface's own names, such as `{ repetition_penalty: 1.1, structured_outputs: { regex: '[a-z]+' } }`. A
 * `tool_choice` is one where it is of type `allowed_tools`.
 * @throws UnsupportedByModelError for a field that the AI SDK or the model itself sets, for beam search, and for what
 * is no field of a chat request.
 */
export function extraFields(
  providerOptions: LanguageModelV4CallOptions['providerOptions'],
): Record<string, unknown> {
  const extra = providerOptions?.[providerName] ?? {};
  for (const name of Object.keys(extra)) {
    if (name === 'tool_choice' && isAllowedTools(extra[name])) continue;
    const refusal = remedies.find(([fields]) => fields.some((field) => field === name));
    if (refusal) throw refuse(name, refusal[1]);
    if (!known.has(name)) throw refuse(name, 'A chat request has no field of that name.');
  }
  return extra;
}

/** A tool choice that the AI SDK has no setting for: it names several tools. */
function isAllowedTools(choice: unknown): boolean {
  return typeof choice === 'object' && choice !== null && 'type' in choice && choice.type === 'allowed_tools';
}

function refuse(name: string, remedy: string): UnsupportedByModelError {
  return new UnsupportedByModelError(`"${name}" in providerOptions.${providerName}`, remedy);
}
