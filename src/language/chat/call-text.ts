import { escapeForPattern } from '../../util/pattern.ts';
import { CALL_ID, type CallForm } from '../call-forms.ts';
import type { CallStyle } from '../tokenizer/tokenizer.ts';
import { shortId } from './call-ids.ts';
import type { TurnToolCall } from './conversation.ts';
import { parameterTexts } from './parameter-text.ts';
import { keywordArguments } from './python-literals.ts';

/**
 * Calls as a model of this style writes them: texts, and the tokens of tags. Their `arguments` are JSON. `afterText`: whether
 * text stands before them.
 */
export function writtenCalls(
  style: CallStyle,
  calls: readonly TurnToolCall[],
  { afterText }: { afterText: boolean },
): (string | number)[] {
  const { open, beforeName, beforeArguments, after, between, close } = style;
  const own = (text: string) => withTokens(text, style.tokens);
  const written = calls.flatMap((call, index) => {
    const withId = (text: string) => own(text.replaceAll(CALL_ID, shortId(call.id)));
    return [
      ...own((index > 0 ? between : open) + beforeName),
      call.name,
      ...withId(beforeArguments),
      argumentsText(style, call.arguments),
      ...withId(after),
    ];
  });
  return [afterText ? style.afterText : '', ...written, ...own(close)];
}

/** Arguments in the notation of a form. Text that is no JSON object stays as it is. */
export const argumentsText = ({ arguments: notation }: CallForm, json: string): string =>
  notation === 'python' ? keywordArguments(json) : notation === 'parameters' ? parameterTexts(json) : json;

function withTokens(text: string, tokens: CallStyle['tokens']): (string | number)[] {
  const tags = Object.keys(tokens);
  if (tags.length === 0) return [text];
  return text
    .split(new RegExp(`(${tags.map(escapeForPattern).join('|')})`))
    .map((part) => tokens[part] ?? part);
}
