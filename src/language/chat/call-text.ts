import type { CallStyle } from '../tokenizer/tokenizer.ts';
import { keywordArguments } from './python-literals.ts';

/** The text around the names and the arguments of calls, as models of this style write it. */
export function callText({ form, open, close, argumentsField }: Omit<CallStyle, 'tokens'>) {
  const alone = { list: null, beforeArguments: '', between: '', afterText: '' };
  if (form === 'named') return { ...alone, beforeName: open, after: close };
  if (form === 'python')
    return {
      ...alone,
      /** What stands before the first call and after the last; null where each has tags of its own. */
      list: { open: `${open}[`, close: `]${close}` },
      beforeName: '',
      beforeArguments: '(',
      after: ')',
      between: ', ',
    };
  const [before, after] = open === '' ? ['', ''] : [`${open}\n`, `\n${close}`];
  const between = open === '' ? '; ' : '\n';
  return {
    ...alone,
    beforeName: `${before}{"name": "`,
    beforeArguments: `", "${argumentsField}": `,
    after: `}${after}`,
    between,
    /** Between text and a call. */
    afterText: between,
  };
}

/**
 * Calls as a model of this style writes them: texts, and the tokens of tags. Their `arguments` are JSON. `afterText`: whether
 * text stands before them.
 */
export function writtenCalls(
  style: CallStyle,
  calls: readonly { name: string; arguments: string }[],
  { afterText }: { afterText: boolean },
): (string | number)[] {
  const { form, open, close, tokens } = style;
  const text = callText(style);
  const texts = calls.map(
    (call) =>
      text.beforeName +
      call.name +
      text.beforeArguments +
      (form === 'python' ? keywordArguments(call.arguments) : call.arguments) +
      text.after,
  );
  const { list } = text;
  return (list ? [list.open + texts.join(text.between) + list.close] : texts).flatMap((written, index) => {
    const before = index > 0 ? text.between : afterText ? text.afterText : '';
    if (!tokens) return [before + written];
    return [before, tokens.open, written.slice(open.length, -close.length), tokens.close];
  });
}

/** The styles of tool calls, and of reasoning. */
export const replyStyles = {
  toolCalls: ['hermes', 'named', 'lfm2', 'llama', 'json', 'none'],
  reasoning: ['think', 'none'],
} as const;

/** How a model writes the parts of a reply that are not text. */
export interface ReplyStyles {
  /**
   * `hermes`: `{"name": ..., "arguments": ...}` between `<tool_call>` and `</tool_call>`, also Qwen's. `named`: a name and
   * its arguments, `add{"a":1}`, between the same tags. `lfm2`: a list of calls in Python, `[add(a=1)]`, between
   * `<|tool_call_start|>` and `<|tool_call_end|>`. `json`: as `hermes` without tags. `llama`: bare JSON with
   * `parameters`. `none`: no calls. Default: as the template and the tokenizer show.
   */
  toolCalls?: (typeof replyStyles.toolCalls)[number];
  /** `think`: between `<think>` and `</think>`. Default: as the template shows. */
  reasoning?: (typeof replyStyles.reasoning)[number];
}
