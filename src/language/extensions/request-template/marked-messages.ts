import { escapeForPattern } from '../../../util/pattern.ts';
import type { PromptPart } from '../../chat/coded-template.ts';
import type { Turn } from '../../chat/conversation.ts';
import { LanguageError } from '../../error.ts';

/** The characters before and after the number of a slot: noncharacters of Unicode, which texts do not contain. */
export interface Marks {
  open: string;
  close: string;
}

/** A message as the Jinja of a chat template sees it. */
export interface TemplateMessage {
  role: string;
  content: string;
  /** The same text under both names, because templates read one or the other. */
  reasoning?: string;
  reasoning_content?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
  name?: string;
}

/** Decides what the template's messages contain in place of a conversation's texts and sampled ids. */
interface TextWriter {
  text(text: string): string;
  content(turn: Turn, isLast: boolean): string;
}

/** The messages for a template, with the caller's arguments of calls as text. */
export function templateMessages(turns: readonly Turn[], { text, content }: TextWriter): TemplateMessage[] {
  return turns.map((turn, index) => {
    const { role, toolCallId, name, tokenIds } = turn;
    const reasoning = turn.reasoning === undefined || tokenIds ? null : text(turn.reasoning);
    const calls = (tokenIds ? [] : turn.toolCalls).map((call) => ({
      id: text(call.id),
      type: 'function' as const,
      function: { name: text(call.name), arguments: text(call.arguments) },
    }));
    return {
      role,
      content: content(turn, index === turns.length - 1),
      ...(reasoning === null ? {} : { reasoning, reasoning_content: reasoning }),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
      ...(toolCallId === undefined ? {} : { tool_call_id: text(toolCallId) }),
      ...(name === undefined ? {} : { name: text(name) }),
    };
  });
}

export const markOf = ({ open, close }: Marks, slot: number) => `${open}${slot}${close}`;

/** Cuts a rendered text at its marks and special tokens. */
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

/** The parts up to the last occurrence of a slot, where the reply continues; null if it does not occur. */
export function partsUpTo(parts: readonly PromptPart[], slot: number): PromptPart[] | null {
  const last = parts.findLastIndex((part) => part.type === 'slot' && part.index === slot);
  return last === -1 ? null : parts.slice(0, last + 1);
}

/** Refuses roles that could form a special token, because templates write them unchanged, perhaps as `<|role|>`. */
export function refuseForgedRoles(turns: readonly Turn[], special: ReadonlyMap<string, number>): void {
  for (const { role } of turns) {
    if (usualRoles.has(role)) continue;
    const isPlain = /^[\p{L}\p{N} _.:/@-]+$/u.test(role);
    if (isPlain && ![...special.keys()].some((text) => withoutBrackets(text) === role)) continue;
    throw new LanguageError(
      'special_token_in_role',
      `\`messages\` has the role ${JSON.stringify(role)}, which could be mistaken for a special token of the model. Use other letters, digits and spaces.`,
    );
  }
}

const usualRoles: ReadonlySet<string> = new Set(['system', 'user', 'assistant', 'tool']);
const withoutBrackets = (text: string) => text.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, '');
