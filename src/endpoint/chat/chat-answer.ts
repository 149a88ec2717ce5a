import type { ChatCompletion, ChatCompletionChunk, Choice } from '../../contract/index.ts';

export interface ShownFields {
  /** The agent asked for log-probabilities. */
  logprobs: boolean;
  /** The agent asked for token ids. */
  tokenIds: boolean;
}

/** The completion as an agent is shown it: what was asked of the service only to record it is left out. */
export function shownCompletion(completion: ChatCompletion, choice: Choice, shown: ShownFields) {
  const { prompt_token_ids, ...rest } = completion;
  return {
    ...rest,
    ...(shown.tokenIds ? { prompt_token_ids } : {}),
    choices: [{ ...shownChoice(choice, shown), message: { refusal: null, ...choice.message } }],
  };
}

export function shownChunk(chunk: ChatCompletionChunk, shown: ShownFields & { includeUsage: boolean }) {
  const { prompt_token_ids, usage, choices, ...rest } = chunk;
  return {
    ...rest,
    choices: choices.map((choice) => ({ ...shownChoice(choice, shown), delta: choice.delta })),
    ...(shown.includeUsage ? { usage: usage ?? null } : {}),
    ...(shown.tokenIds && prompt_token_ids ? { prompt_token_ids } : {}),
  };
}

function shownChoice(choice: Choice | ChatCompletionChunk['choices'][number], shown: ShownFields) {
  const { index, finish_reason, stop_reason, logprobs, token_ids } = choice;
  return {
    index,
    finish_reason,
    ...(stop_reason === undefined ? {} : { stop_reason }),
    logprobs: shown.logprobs ? (logprobs ?? null) : null,
    ...(shown.tokenIds ? { token_ids } : {}),
  };
}
