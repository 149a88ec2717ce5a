import { mentions } from '../jinja/template.ts';
import type { ReasoningTags, Tokenizer } from '../tokenizer/tokenizer.ts';
import type { PromptPart } from './coded-template.ts';

/** The variables that tell a template how much the model shall reason. `none` is no value of `reasoning_effort`. */
export function effortVariables(effort: string | undefined): Record<string, string | boolean> {
  if (effort === undefined) return {};
  // Qwen3's template has only this switch.
  if (effort === 'none') return { enable_thinking: false };
  return { reasoning_effort: effort, enable_thinking: true };
}

/**
 * What keeps a reply from reasoning, as Qwen3's template writes it at the end of a prompt: it closes reasoning that the
 * template has begun. If there is none, it is empty reasoning, unless the template can be told with `enable_thinking`.
 */
export function reasoningEnd(
  parts: readonly PromptPart[],
  tags: ReasoningTags,
  { template, tokenizer }: { template: string; tokenizer: Tokenizer },
): PromptPart[] {
  const tag = (which: 'open' | 'close'): PromptPart =>
    tags.tokens ? { type: 'special', token: tags.tokens[which] } : { type: 'text', text: tags[which] };
  const special = new Set(tokenizer.special.values());
  const start = parts.findLastIndex((part) => part.type === 'special' && special.has(part.token)) + 1;
  const texts = parts
    .slice(start)
    .map((part) =>
      part.type === 'text' ? part.text : part.type === 'special' ? tokenizer.text(part.token) : '',
    );
  const end: PromptPart[] = [
    { type: 'text', text: '\n' },
    tag('close'),
    { type: 'text', text: tags.afterClose },
  ];
  if (isOpen(texts.join(''), tags)) return end;
  if (mentions(template, 'enable_thinking')) return [];
  return [tag('open'), { type: 'text', text: tags.afterOpen }, ...end];
}

/** Whether a prompt ends within reasoning, so that the reply continues it. */
export function endsInReasoning(
  prompt: readonly number[],
  tags: ReasoningTags,
  tokenizer: Tokenizer,
): boolean {
  const special = new Set(tokenizer.special.values());
  const start = prompt.findLastIndex((token) => special.has(token)) + 1;
  return isOpen(
    prompt
      .slice(start)
      .map((token) => tokenizer.text(token))
      .join(''),
    tags,
  );
}

const isOpen = (text: string, { open, close }: ReasoningTags) =>
  text.lastIndexOf(open) > text.lastIndexOf(close);
