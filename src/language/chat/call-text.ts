import type { CallStyle } from '../tokenizer/tokenizer.ts';

/** The text around the name and the arguments of a call, as models of this style write it. */
export function callText({ form, open, close, argumentsField }: Omit<CallStyle, 'tokens'>) {
  if (form === 'named') return { beforeName: open, beforeArguments: '', after: close, between: '' };
  const [before, after] = open === '' ? ['', ''] : [`${open}\n`, `\n${close}`];
  return {
    beforeName: `${before}{"name": "`,
    beforeArguments: `", "${argumentsField}": `,
    after: `}${after}`,
    /** Between two calls, and between text and a call. */
    between: open === '' ? '; ' : '\n',
  };
}

/** The styles of tool calls, and of reasoning. */
export const replyStyles = {
  toolCalls: ['hermes', 'named', 'llama', 'json', 'none'],
  reasoning: ['think', 'none'],
} as const;

/** How a model writes what is not the text of its replies. */
export interface ReplyStyles {
  /**
   * `hermes`: `{"name": ..., "arguments": ...}` between `<tool_call>` and `</tool_call>`, also Qwen's. `named`: a name and
   * its arguments, `add{"a":1}`, between the same tags. `json`: as `hermes` without tags. `llama`: bare JSON with
   * `parameters`. `none`: no calls. Default: as the template shows.
   */
  toolCalls?: (typeof replyStyles.toolCalls)[number];
  /** `think`: between `<think>` and `</think>`. Default: as the template shows. */
  reasoning?: (typeof replyStyles.reasoning)[number];
}
