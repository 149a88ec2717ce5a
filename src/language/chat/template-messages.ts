import type { Turn } from './conversation.ts';

/** A message as the Jinja of a chat template sees it. */
export interface TemplateMessage {
  role: string;
  content: string;
  /** The same text under both of its names. */
  reasoning?: string;
  reasoning_content?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
  name?: string;
}

/** Decides what stands in a template's messages for the texts and the sampled ids of a conversation. */
export interface SlotWriter {
  /** `what` describes a text that has to be seen in the prompt; null for one that need not be. */
  text(text: string, what: string | null): string;
  content(turn: Turn, isLast: boolean): string;
}

/** The messages of a conversation. The order in which the writer is asked is fixed: it numbers the slots. */
export function templateMessages(turns: readonly Turn[], writer: SlotWriter): TemplateMessage[] {
  return turns.map((turn, index) => {
    const content = writer.content(turn, index === turns.length - 1);
    const reasoning =
      turn.reasoning === undefined || turn.tokenIds
        ? null
        : writer.text(turn.reasoning, `the reasoning of an ${turn.role} message`);
    const calls = turn.tokenIds
      ? []
      : turn.toolCalls.map((call, position) => ({
          id: writer.text(call.id, null),
          type: 'function' as const,
          function: {
            name: writer.text(call.name, `the name of tool call ${position}`),
            arguments: writer.text(call.arguments, `the arguments of tool call ${position}`),
          },
        }));
    const toolCallId = turn.toolCallId === undefined ? null : writer.text(turn.toolCallId, null);
    // A tool's result is told by the call it answers; anyone else's name would be lost.
    const named = turn.role === 'tool' ? null : `the name of a ${turn.role} message`;
    const name = turn.name === undefined ? null : writer.text(turn.name, named);
    return {
      role: turn.role,
      content,
      ...(reasoning === null ? {} : { reasoning, reasoning_content: reasoning }),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
      ...(toolCallId === null ? {} : { tool_call_id: toolCallId }),
      ...(name === null ? {} : { name }),
    };
  });
}

/** What of a conversation comes from its caller and stands in the prompt as it is. */
export type Slot = { type: 'text'; text: string } | { type: 'tokens'; tokens: readonly number[] };

export function slotsOf(turns: readonly Turn[]): Slot[] {
  const slots: Slot[] = [];
  const text = (value: string) => {
    slots.push({ type: 'text', text: value });
    return value;
  };
  const content = (turn: Turn) => {
    if (!turn.tokenIds) return text(turn.content);
    slots.push({ type: 'tokens', tokens: turn.tokenIds });
    return '';
  };
  templateMessages(turns, { text, content });
  return slots;
}

/** A rendered conversation with holes where the caller's texts or sampled ids go. */
export type PromptPart =
  | { type: 'special'; token: number }
  | { type: 'text'; text: string }
  | { type: 'slot'; index: number };

/** Around the number of a slot. Noncharacters of Unicode: no text in use holds them. */
export interface Marks {
  open: string;
  close: string;
}

export const markOf = ({ open, close }: Marks, slot: number) => `${open}${slot}${close}`;

/** Cuts a rendered text at its marks and its special tokens. */
export function cutAtMarks(
  rendered: string,
  special: ReadonlyMap<string, number>,
  { open, close }: Marks,
): PromptPart[] {
  const parts: PromptPart[] = [];
  const texts = [...special.keys()].sort((a, b) => b.length - a.length).map(escapeForPattern);
  const boundary = new RegExp([`${open}(\\d+)${close}`, ...texts].join('|'), 'g');
  let end = 0;
  for (const match of rendered.matchAll(boundary)) {
    if (match.index > end) parts.push({ type: 'text', text: rendered.slice(end, match.index) });
    end = match.index + match[0].length;
    const token = special.get(match[0]);
    parts.push(token === undefined ? { type: 'slot', index: Number(match[1]) } : { type: 'special', token });
  }
  if (end < rendered.length) parts.push({ type: 'text', text: rendered.slice(end) });
  return parts;
}

const escapeForPattern = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The parts up to where a slot last stands, which is where its reader goes on; null where it does not stand. */
export function partsUpTo(parts: readonly PromptPart[], slot: number): PromptPart[] | null {
  const last = parts.findLastIndex((part) => part.type === 'slot' && part.index === slot);
  return last === -1 ? null : parts.slice(0, last + 1);
}
