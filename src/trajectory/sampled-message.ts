import type { Choice, Message } from '../contract/index.ts';

export type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/** A sampled reply as a message of a later prompt. `tokenIds`: with the ids that were sampled, so that no text stands for them. */
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
