import type { ExactJson } from '../../util/exact-json.ts';
import { escapeForPattern } from '../../util/pattern.ts';
import { LanguageError, messageOf } from '../error.ts';
import { BudgetError } from '../jinja/budget.ts';
import type { Template } from '../jinja/template.ts';
import type { Turn } from './conversation.ts';

/** A rendered conversation with slots for the caller's texts and for sampled ids. */
export type PromptPart =
  | { type: 'special'; token: number }
  | { type: 'text'; text: string }
  | { type: 'slot'; index: number };

/** Content of a slot: text, or token ids that enter the prompt unchanged. */
export type Slot = { type: 'text'; text: string } | { type: 'tokens'; tokens: readonly number[] };

/** The characters before and after the number of a slot: noncharacters of Unicode, which texts do not contain. */
export interface Marks {
  open: string;
  close: string;
}

// Constants are safe here: the tools are checked for them, and no other text of the caller goes through the template.
const marks: Marks = { open: '\uFDD0', close: '\uFDD1' };

/** What a prompt depends on besides its messages and tools. */
export interface SkeletonOptions {
  addGenerationPrompt: boolean;
  /** The last message stays open: nothing follows its content. */
  continueFinalMessage: boolean;
  /** Further variables of the template. They take few different values. */
  variables: Readonly<Record<string, unknown>>;
}

/** What a skeleton depends on: the roles, the form of each message, and the tools, but not the texts. */
export function shapeOf(turns: readonly Turn[], toolsJson: string, options: SkeletonOptions): string {
  let shape = `${options.addGenerationPrompt ? '+' : '-'}${options.continueFinalMessage ? '~' : ''}`;
  for (const turn of turns) {
    const body = turn.tokenIds ? 't' : `${turn.content === '' ? 'e' : 'c'}${turn.toolCalls.length}`;
    const extras = `${turn.reasoning === undefined ? '' : 'r'}${turn.toolCallId === undefined ? '' : 'i'}${turn.name === undefined ? '' : 'n'}`;
    shape += `${JSON.stringify(turn.role)}${body}${extras};`;
  }
  return `${shape}${JSON.stringify(options.variables)}${toolsJson}`;
}

/**
 * Renders the template once per shape, with a mark in place of each text, and cuts the result at the marks and at the
 * special tokens. Special tokens come from the template alone, so the caller's texts cannot forge one.
 */
export function skeletonOf(
  template: Template,
  special: ReadonlyMap<string, number>,
  turns: readonly Turn[],
  tools: ExactJson | undefined,
  options: SkeletonOptions,
): PromptPart[] {
  let slots = 0;
  let finalSlot = 0;
  const required: { index: number; what: string }[] = [];
  const mark = (what: string | null) => {
    if (what !== null) required.push({ index: slots, what });
    return markOf(marks, slots++);
  };
  const messages = templateMessages(turns, {
    text: (_, what) => mark(what),
    content: (turn, isLast) => {
      if (isLast) finalSlot = slots;
      const isOpen = isLast && options.continueFinalMessage;
      const isEmpty = turn.content === '' && !turn.tokenIds && !isOpen;
      const shown = mark(isEmpty ? null : `the content of a ${turn.role} message`);
      return isEmpty ? '' : shown;
    },
  });
  const { variables, addGenerationPrompt } = options;
  const values = { ...variables, messages, tools, add_generation_prompt: addGenerationPrompt };
  const parts = cutAtMarks(renderTemplate(template, values), special, marks);
  const seen = new Map<number, number>();
  for (const part of parts) if (part.type === 'slot') seen.set(part.index, (seen.get(part.index) ?? 0) + 1);
  for (const { index, what } of required)
    if (seen.get(index) !== 1)
      throw new LanguageError(
        'not_in_chat_template',
        `The model's chat template writes ${what} ${seen.get(index) ?? 0} times; it must appear in the prompt exactly once.`,
      );
  return options.continueFinalMessage ? (partsUpTo(parts, finalSlot) ?? parts) : parts;
}

/** Renders the model's own template. Throws a `LanguageError` if the template refuses the conversation. */
export function renderTemplate(template: Template, values: Record<string, unknown>): string {
  try {
    return template.render(values);
  } catch (cause) {
    const remedy = cause instanceof BudgetError ? '. Send fewer or smaller messages and tools' : '';
    throw new LanguageError(
      'chat_template_failed',
      `The model's chat template refuses this conversation: ${messageOf(cause)}${remedy}`,
      { cause },
    );
  }
}

/** A message as the Jinja of a chat template sees it. */
export interface TemplateMessage {
  role: string;
  content: string;
  /** Both names have one text: templates read one or the other. */
  reasoning?: string;
  reasoning_content?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
  name?: string;
}

/** Decides what the template's messages contain in place of a conversation's texts and sampled ids. */
interface SlotWriter {
  /** `what` describes a text that must appear in the prompt; null if it need not. */
  text(text: string, what: string | null): string;
  content(turn: Turn, isLast: boolean): string;
}

/** The messages for the template. They call the writer in a fixed order, which numbers the slots. */
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
    // A tool result is identified by its call, so its name may be left out. Any other name must appear.
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

/** The contents of a skeleton's slots, in order. */
export function slotsOf(turns: readonly Turn[]): Slot[] {
  const slots: Slot[] = [];
  const fill = (slot: Slot) => {
    slots.push(slot);
    return '';
  };
  templateMessages(turns, {
    text: (text) => fill({ type: 'text', text }),
    content: ({ content, tokenIds }) =>
      fill(tokenIds ? { type: 'tokens', tokens: tokenIds } : { type: 'text', text: content }),
  });
  return slots;
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

/** Whether a template has a variable of this name. */
export const mentions = (template: string, name: string): boolean =>
  new RegExp(`(?<![\\p{L}\\p{N}_])${name}(?![\\p{L}\\p{N}_])`, 'u').test(template);

/** The parts up to the last occurrence of a slot, where the reply continues; null if it does not occur. */
export function partsUpTo(parts: readonly PromptPart[], slot: number): PromptPart[] | null {
  const last = parts.findLastIndex((part) => part.type === 'slot' && part.index === slot);
  return last === -1 ? null : parts.slice(0, last + 1);
}

/** Refuses tools that contain a special token or a mark, because they become part of the template's own text. */
export function refuseForgery(toolsJson: string, special: ReadonlyMap<string, number>): void {
  for (const text of [...special.keys(), marks.open, marks.close])
    if (toolsJson.includes(JSON.stringify(text).slice(1, -1)) || toolsJson.includes(text))
      throw new LanguageError(
        'special_token_in_tools',
        `tools: ${JSON.stringify(text)} is a special token of the model and cannot be part of a tool's definition.`,
      );
}

/** Refuses roles that could form a special token, because templates write them unchanged, perhaps as `<|role|>`. */
export function refuseForgedRoles(turns: readonly Turn[], special: ReadonlyMap<string, number>): void {
  for (const { role } of turns) {
    if (usualRoles.has(role)) continue;
    const isPlain = /^[\p{L}\p{N} _.:/@-]+$/u.test(role);
    if (isPlain && ![...special.keys()].some((text) => withoutBrackets(text) === role)) continue;
    throw new LanguageError(
      'special_token_in_role',
      `messages: the role ${JSON.stringify(role)} could be mistaken for a special token of the model; use other letters, digits and spaces.`,
    );
  }
}

const usualRoles: ReadonlySet<string> = new Set(['system', 'user', 'assistant', 'tool']);
const withoutBrackets = (text: string) => text.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, '');
