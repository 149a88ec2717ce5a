import type { Message, ToolCall } from '../contract/index.ts';

/** Fields shared by replies and assistant messages. */
interface MessageFields {
  content?: Message['content'];
  reasoning?: string | null | undefined;
  reasoning_content?: string | null | undefined;
  tool_calls?: readonly ToolCall[] | null | undefined;
}

/** A key of a message's content: messages with equal keys mean the same, whichever library wrote them. */
export function messageKey(message: Message): string {
  const fields = Object.entries(message)
    .filter(([name, value]) => name !== 'content' && !saysNothing(value))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([plainContent(message.content), fields]);
}

/**
 * A key that a reply shares with the assistant message an agent sends back for it: the text, and the ids and names of
 * its tool calls. Omits arguments, because agent libraries serialize them again and the ids identify the calls. Omits
 * reasoning, because some protocols cannot carry it.
 */
export function replyKey({ content, tool_calls }: MessageFields): string {
  const calls = (tool_calls ?? []).map((call) => [call.id, call.function.name]);
  return JSON.stringify([textOf(content), calls]);
}

/** The reasoning of a message, under either field name; empty if there is none. */
export function reasoningOf({ reasoning, reasoning_content }: MessageFields): string {
  return reasoning || reasoning_content || '';
}

function saysNothing(value: unknown): boolean {
  return (
    value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)
  );
}

/** A single text part equals plain text. Several parts stay separate, because a template may render them separately. */
function plainContent(content: Message['content']): unknown {
  if (!Array.isArray(content)) return content ?? '';
  const [only] = content;
  return content.length === 1 && only?.type === 'text' ? only.text : content;
}

/** The content as one string, because agent libraries may split a reply into parts. */
function textOf(content: Message['content']): string {
  if (!Array.isArray(content)) return content ?? '';
  return content.map((part) => (part.type === 'text' ? part.text : part.refusal)).join('');
}
