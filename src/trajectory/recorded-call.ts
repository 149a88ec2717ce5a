import type { Choice, Message, Tool } from '../contract/index.ts';

/** One answered model call, as it went over the wire. */
export interface RecordedCall {
  /** Number of the call within the trajectory, in the order in which the calls began. */
  index: number;
  /** The messages that were sent. */
  messages: readonly Message[];
  tools: Tool[] | undefined;
  choice: Choice;
  /** Ids of the whole prompt, as the service rendered it. */
  promptTokenIds: readonly number[];
  /** Name of the model that answered, from the response. */
  model: string;
  /** For an external model's call, whose tokens are unknown: its history holds this message instead of the choice. */
  spoken?: { reply: Message; sampledTokens: number };
}

/** One answered call of an external model: the messages are known, the tokens are not. */
export interface SpokenCall extends Omit<RecordedCall, 'promptTokenIds' | 'spoken'> {
  /** The provider's count; 0 where it returns none. */
  promptTokens: number;
  /** The provider's count; 0 where it returns none. */
  sampledTokens: number;
}

/** A recorded call as rewards see it. */
export interface TrajectoryCall {
  readonly index: number;
  readonly messages: readonly Message[];
  readonly choice: Choice;
  /** Sum of the call's step rewards; 0 if it has none. */
  readonly reward: number;
}

/** A prompt as chat messages. `callIds[i]` is the call that sampled `messages[i]`, where the agent's library says so. */
export interface PromptMessages {
  messages: Message[];
  callIds: (string | undefined)[];
  /** The agent's protocol may lose a reply's reasoning, so a reply without it is no edit. Default false. */
  mayDropReasoning?: boolean;
}

export type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/** A sampled reply as a message of a later prompt. `tokenIds` adds the sampled ids, so that no text stands for them. */
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

/** An external model's reply as rewards see it, made of the message in its conversation. */
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
