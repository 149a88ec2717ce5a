import { type Choice, type Message, type ToolCall, textOf } from '../contract/index.ts';
import { reasoningOf } from './recorded-call.ts';

/** A message or a sampled reply, as people read it. */
interface ReadableMessage {
  role: Message['role'];
  text: string;
  /** Empty if there is none. */
  reasoning: string;
  toolCalls: readonly ToolCall[];
}

export function readableMessage(entry: Message | Pick<Choice, 'message'>): ReadableMessage {
  const message = 'message' in entry ? { ...entry.message, role: 'assistant' as const } : entry;
  const { role } = message;
  const isReply = message.role === 'assistant';
  return {
    role,
    text: textOf(message.content),
    reasoning: isReply ? reasoningOf(message) : '',
    toolCalls: (isReply && message.tool_calls) || [],
  };
}
