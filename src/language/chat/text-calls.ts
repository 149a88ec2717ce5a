import type { TextCalls } from '../tokenizer/tokenizer.ts';

/** The text around the name and the arguments of a call, as models of this kind write it. */
export function callText({ open, close, argumentsField }: TextCalls) {
  const [before, after] = open === '' ? ['', ''] : [`${open}\n`, `\n${close}`];
  return {
    beforeName: `${before}{"name": "`,
    beforeArguments: `", "${argumentsField}": `,
    after: `}${after}`,
    /** Between two calls, and between text and a call. */
    between: open === '' ? '; ' : '\n',
  };
}
