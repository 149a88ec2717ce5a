import { readFileSync } from 'node:fs';
import { BpeTokenizer, type TokenizerFile } from './bpe.ts';
import { byteLevel } from './byte-level.ts';
import type { ChatFormat, Tokenizer } from './tokenizer.ts';

const FILE = new URL('./assets/tokenizer.json', import.meta.url);

let loaded: Tokenizer | undefined;

/** The tokenizer of the embedded base models: byte-level BPE with 512 ids. Every digit is a token. */
export function loadTokenizer(): Tokenizer {
  if (loaded) return loaded;
  const file = JSON.parse(readFileSync(FILE, 'utf8')) as TokenizerFile;
  const split = (text: string) => text.match(new RegExp(WORD_PATTERN, 'gu')) ?? [];
  loaded = new BpeTokenizer(file, { split, normalize: null }, byteLevel(file.model.vocab));
  return loaded;
}

const TEMPLATE = new URL('./assets/chat-template.jinja', import.meta.url);

/** How the embedded base models write conversations: compactly, each section between two special tokens. */
export function chatFormat(tokenizer: Tokenizer): ChatFormat & { callToken: number } {
  return {
    template: readFileSync(TEMPLATE, 'utf8'),
    toolTemplate: null,
    templateFrom: 'checkpoint',
    inspectsTexts: false,
    variables: { bos_token: '<|begin|>', eos_token: '<|end|>' },
    endToken: specialToken(tokenizer, '<|end|>'),
    otherEndTokens: [],
    callToken: specialToken(tokenizer, '<|call|>'),
    textCalls: null,
    textReasoning: null,
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

/**
 * Splits text into words, which merges do not cross: a word with the space before it, one digit, a run of punctuation
 * (with the space before it, so that spaced and compact JSON share tokens), white space.
 */
export const WORD_PATTERN = "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
