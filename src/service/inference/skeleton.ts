import type { Template } from '@huggingface/jinja';
import type { Tool } from '../../contract/index.ts';
import { messageOf, ServiceError } from '../errors.ts';
import type { Turn } from './conversation.ts';

/** A rendered conversation with holes where the caller's texts go. */
export type SkeletonPart =
  | { type: 'special'; token: number }
  | { type: 'text'; text: string }
  | { type: 'slot'; index: number };

export type Slot = { type: 'text'; text: string } | { type: 'tokens'; tokens: readonly number[] };

// Noncharacters of Unicode: no text in use holds them, and the tools are checked for them.
const open = '\uFDD0';
const close = '\uFDD1';

/**
 * The texts of a conversation that templates show, in a fixed order; `skeletonOf` numbers its holes the same way.
 */
export function slotsOf(turns: readonly Turn[]): Slot[] {
  const slots: Slot[] = [];
  const push = (text: string) => slots.push({ type: 'text', text });
  for (const turn of turns) {
    if (turn.tokenIds) slots.push({ type: 'tokens', tokens: turn.tokenIds });
    else push(turn.content);
    if (!turn.tokenIds)
      for (const call of turn.toolCalls) {
        push(call.id);
        push(call.name);
        push(call.arguments);
      }
    if (turn.toolCallId !== undefined) push(turn.toolCallId);
    if (turn.name !== undefined) push(turn.name);
  }
  return slots;
}

/** What a skeleton depends on: who speaks, in which form, and the tools; not what is said. */
export function shapeOf(turns: readonly Turn[], toolsJson: string, addGenerationPrompt: boolean): string {
  let shape = addGenerationPrompt ? '+' : '-';
  for (const turn of turns) {
    const body = turn.tokenIds ? 't' : `${turn.content === '' ? 'e' : 'c'}${turn.toolCalls.length}`;
    shape += `${turn.role}${body}${turn.toolCallId === undefined ? '' : 'i'}${turn.name === undefined ? '' : 'n'};`;
  }
  return shape + toolsJson;
}

/**
 * Renders the template once for a shape, with a unique mark for each text, and cuts the result at the marks and at
 * the special tokens. Special tokens thus come from the template alone: no text of the caller's can forge one.
 */
export function skeletonOf(
  template: Template,
  special: ReadonlyMap<string, number>,
  turns: readonly Turn[],
  tools: readonly Tool[] | undefined,
  addGenerationPrompt: boolean,
): SkeletonPart[] {
  let slot = 0;
  const required: { index: number; what: string }[] = [];
  const mark = (what?: string) => {
    if (what !== undefined) required.push({ index: slot, what });
    return `${open}${slot++}${close}`;
  };
  const messages = turns.map((turn) => {
    const content = mark(
      turn.content === '' && !turn.tokenIds ? undefined : `the content of a ${turn.role} message`,
    );
    const calls = turn.tokenIds
      ? []
      : turn.toolCalls.map((_, position) => ({
          id: mark(),
          type: 'function',
          function: {
            name: mark(`the name of tool call ${position}`),
            arguments: mark(`the arguments of tool call ${position}`),
          },
        }));
    return {
      role: turn.role,
      content: turn.content === '' && !turn.tokenIds ? '' : content,
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
      ...(turn.toolCallId === undefined ? {} : { tool_call_id: mark() }),
      ...(turn.name === undefined ? {} : { name: mark() }),
    };
  });
  const rendered = render(template, { messages, tools, add_generation_prompt: addGenerationPrompt });
  const parts = cut(rendered, special);
  const seen = new Map<number, number>();
  for (const part of parts) if (part.type === 'slot') seen.set(part.index, (seen.get(part.index) ?? 0) + 1);
  for (const { index, what } of required)
    if (seen.get(index) !== 1)
      throw new ServiceError(
        422,
        'not_in_chat_template',
        `The model's chat template writes ${what} ${seen.get(index) ?? 0} times; it must stand in the prompt once.`,
      );
  return parts;
}

function render(template: Template, values: Record<string, unknown>): string {
  try {
    return template.render(values);
  } catch (cause) {
    throw new ServiceError(
      422,
      'chat_template_failed',
      `The model's chat template refuses this conversation: ${messageOf(cause)}`,
      { cause },
    );
  }
}

function cut(rendered: string, special: ReadonlyMap<string, number>): SkeletonPart[] {
  const parts: SkeletonPart[] = [];
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

/** Tools become part of the template's own text: what could pass for a special token or a mark is refused. */
export function refuseForgery(toolsJson: string, special: ReadonlyMap<string, number>): void {
  for (const text of [...special.keys(), open, close])
    if (toolsJson.includes(JSON.stringify(text).slice(1, -1)) || toolsJson.includes(text))
      throw new ServiceError(
        422,
        'special_token_in_tools',
        `tools: ${JSON.stringify(text)} means something special to the model and cannot stand in a tool's definition.`,
      );
}

const escapeForPattern = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
