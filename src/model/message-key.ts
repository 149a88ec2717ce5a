import type { Message, ToolCall } from '../contract/index.ts';

/** What replies and assistant messages have in common. */
interface Said {
  content?: Message['content'];
  reasoning?: string | null | undefined;
  reasoning_content?: string | null | undefined;
  tool_calls?: readonly ToolCall[] | null | undefined;
}

/** What tells a message from another: equal keys mean that it says the same, whichever library wrote it. */
export function messageKey(message: Message): string {
  const fields = Object.entries(message)
    .filter(([name, value]) => name !== 'content' && !saysNothing(value))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([plainContent(message.content), fields]);
}

/**
 * What a reply and the assistant message that an agent sends back for it have in common: text, and the ids and names
 * of its calls. Arguments are left out, as agents' libraries write them again; the ids tell calls apart. Reasoning is
 * left out, as some protocols have no place for it.
 */
export function replyKey({ content, tool_calls }: Said): string {
  const calls = (tool_calls ?? []).map((call) => [call.id, call.function.name]);
  return JSON.stringify([textOf(content), calls]);
}

/** The reasoning of a message, under either of its names; empty where there is none. */
export function reasoningOf({ reasoning, reasoning_content }: Said): string {
  return reasoning || reasoning_content || '';
}

function saysNothing(value: unknown): boolean {
  return (
    value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)
  );
}

/** One text part is the same as the text alone; several stay apart, as a template may show them apart. */
function plainContent(content: Message['content']): unknown {
  if (!Array.isArray(content)) return content ?? '';
  const [only] = content;
  return content.length === 1 && only?.type === 'text' ? only.text : content;
}

/** A reply is one text, also where an agent's library cuts it into parts. */
function textOf(content: Message['content']): string {
  if (!Array.isArray(content)) return content ?? '';
  return content.map((part) => (part.type === 'text' ? part.text : part.refusal)).join('');
}
