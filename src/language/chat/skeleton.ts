import type { Template } from '@huggingface/jinja';
import type { Tool } from '../../contract/index.ts';
import { LanguageError, messageOf } from '../error.ts';
import type { Turn } from './conversation.ts';
import { cutAtMarks, markOf, type PromptPart, partsUpTo, templateMessages } from './template-messages.ts';

/** What of a prompt is decided beside its messages and tools. */
export interface SkeletonOptions {
  addGenerationPrompt: boolean;
  /** The last message is left open: nothing stands after its content. */
  continueFinalMessage: boolean;
  /** Further variables of the template; together they have few different values. */
  variables: Readonly<Record<string, string>>;
}

// The tools are checked for them; other texts of the caller's do not come into the template.
const marks = { open: '\uFDD0', close: '\uFDD1' };

/** What a skeleton depends on: who speaks, in which form, and the tools; not what is said. */
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
 * Renders the template once for a shape, with a unique mark for each text, and cuts the result at the marks and at
 * the special tokens. Special tokens thus come from the template alone: no text of the caller's can forge one.
 */
export function skeletonOf(
  template: Template,
  special: ReadonlyMap<string, number>,
  turns: readonly Turn[],
  tools: readonly Tool[] | undefined,
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
  const rendered = renderTemplate(template, {
    ...options.variables,
    messages,
    tools,
    add_generation_prompt: options.addGenerationPrompt,
  });
  const parts = cutAtMarks(rendered, special, marks);
  const seen = new Map<number, number>();
  for (const part of parts) if (part.type === 'slot') seen.set(part.index, (seen.get(part.index) ?? 0) + 1);
  for (const { index, what } of required)
    if (seen.get(index) !== 1)
      throw new LanguageError(
        'not_in_chat_template',
        `The model's chat template writes ${what} ${seen.get(index) ?? 0} times; it must stand in the prompt once.`,
      );
  return options.continueFinalMessage ? (partsUpTo(parts, finalSlot) ?? parts) : parts;
}

/** Renders the model's own template; what it refuses is a 422. */
export function renderTemplate(template: Template, values: Record<string, unknown>): string {
  try {
    return template.render(values);
  } catch (cause) {
    throw new LanguageError(
      'chat_template_failed',
      `The model's chat template refuses this conversation: ${messageOf(cause)}`,
      { cause },
    );
  }
}

/** Tools become part of the template's own text: what could pass for a special token or a mark is refused. */
export function refuseForgery(toolsJson: string, special: ReadonlyMap<string, number>): void {
  for (const text of [...special.keys(), marks.open, marks.close])
    if (toolsJson.includes(JSON.stringify(text).slice(1, -1)) || toolsJson.includes(text))
      throw new LanguageError(
        'special_token_in_tools',
        `tools: ${JSON.stringify(text)} means something special to the model and cannot stand in a tool's definition.`,
      );
}

/**
 * Roles stand in a template as they are, and templates may write `<|role|>`: a role beyond the usual ones that could
 * make a special token of it is refused.
 */
export function refuseForgedRoles(turns: readonly Turn[], special: ReadonlyMap<string, number>): void {
  for (const { role } of turns) {
    if (usualRoles.has(role)) continue;
    const isPlain = /^[\p{L}\p{N} _.:/@-]+$/u.test(role);
    if (isPlain && ![...special.keys()].some((text) => withoutBrackets(text) === role)) continue;
    throw new LanguageError(
      'special_token_in_role',
      `messages: the role ${JSON.stringify(role)} could pass for a special token of the model; name it with other letters, digits and spaces.`,
    );
  }
}

const usualRoles: ReadonlySet<string> = new Set(['system', 'user', 'assistant', 'tool']);
const withoutBrackets = (text: string) => text.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, '');
