import { readFileSync } from 'node:fs';
import type { ChatFormat } from '../chat/chat-format.ts';
import type { Tokenizer } from './tokenizer.ts';

const TEMPLATE = new URL('./assets/chat-template.jinja', import.meta.url);

/** How the embedded base models write conversations: compactly, each section between two special tokens. */
export function chatFormat(tokenizer: Tokenizer): ChatFormat {
  return {
    template: readFileSync(TEMPLATE, 'utf8'),
    endToken: specialToken(tokenizer, '<|end|>'),
    callToken: specialToken(tokenizer, '<|call|>'),
    beginToken: specialToken(tokenizer, '<|begin|>'),
    reasoning: {
      open: specialToken(tokenizer, '<|think|>'),
      close: specialToken(tokenizer, '<|answer|>'),
    },
  };
}

function specialToken(tokenizer: Tokenizer, text: string): number {
  const token = tokenizer.special.get(text);
  if (token === undefined) throw new RangeError(`the tokenizer has no special token ${text}`);
  return token;
}
