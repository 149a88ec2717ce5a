import type { Choice, Message, Tool } from '../contract/index.ts';

/** One answered model call, as sent over the wire. */
export interface RecordedCall {
  /** Index of the call in the trajectory. Calls are numbered in the order they began. */
  index: number;
  /** Messages of the request. */
  messages: readonly Message[];
  tools: Tool[] | undefined;
  choice: Choice;
  /** Token ids of the whole prompt, as rendered by the service. */
  promptTokenIds: readonly number[];
  /** Name of the model that answered, from the response. */
  model: string;
  /** Only for an external model, whose tokens are unknown: the history holds this message instead of the choice. */
  spoken?: { reply: Message; sampledTokens: number };
}

/** One answered call of an external model. Its messages are known, its tokens are not. */
export interface SpokenCall extends Omit<RecordedCall, 'promptTokenIds' | 'spoken'> {
  /** As counted by the provider; 0 if it returns no count. */
  promptTokens: number;
  /** As counted by the provider; 0 if it returns no count. */
  sampledTokens: number;
}

/** A recorded call, as passed to rewards. */
export interface TrajectoryCall {
  readonly index: number;
  readonly messages: readonly Message[];
  readonly choice: Choice;
  /** Sum of the call's step rewards; 0 if it has none. */
  readonly reward: number;
}

/** A prompt as chat messages. `callIds[i]` is the call that sampled `messages[i]`, if the agent's library sends it. */
export interface PromptMessages {
  messages: Message[];
  callIds: (string | undefined)[];
  /** The agent's protocol may drop reasoning, so a reply without it counts as unedited. Default false. */
  mayDropReasoning?: boolean;
}

export type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/** A sampled reply as a message of a later prompt. `tokenIds` adds its token ids, so the text is not tokenized again. */
export function sampledMessage(
  { message, token_ids }: Choice,
  { tokenIds }: { tokenIds: boolean },
): AssistantMessage {
  return {
    role: 'assistant',
    content: message.content,
    ...(message.reasoning ? { reasoning: message.reasoning } : {}),
    ...(message.reasoning_content ? { reasoning_content: message.reasoning_content } : {}),
    ...(message.tool_calls?.length ? { tool_calls: message.tool_calls } : {}),
    ...(tokenIds && token_ids ? { token_ids } : {}),
  };
}

interface SpokenFields {
  content?: Message['content'];
  reasoning_content?: string | null | undefined;
  tool_calls?: AssistantMessage['tool_calls'];
}

/** An external model's reply as a choice, built from its message in the conversation. */
export function toSpokenChoice(
  { content, reasoning_content, tool_calls }: SpokenFields,
  finishReason: Choice['finish_reason'],
): Choice {
  const text = Array.isArray(content)
    ? content.map((part) => ('text' in part ? part.text : '')).join('')
    : content;
  return {
    index: 0,
    message: {
      role: 'assistant',
      content: text ?? null,
      ...(reasoning_content ? { reasoning_content } : {}),
      ...(tool_calls?.length ? { tool_calls } : {}),
    },
    finish_reason: finishReason,
  };
}
