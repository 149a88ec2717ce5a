import type { Tokenizer } from '../../../src/language/tokenizer/tokenizer.ts';
import { randomChooser } from './support.ts';

/** A vocabulary like those of open-weight models: words, code, numbers, many scripts, and parts of characters. */
export interface LargeVocabulary {
  tokenizer: Tokenizer;
  endToken: number;
}

/** Ids without bytes at the end, as where a model has more outputs than its tokenizer has tokens. */
const unusedIds = 40;
const endText = '<|end|>';
/** Added tokens that are text in a reply. */
const tags = ['<tool_call>', '</tool_call>', '<think>', '</think>'];

/** Its ids are the same in every run. */
export function makeLargeVocabulary(size: number): LargeVocabulary {
  const texts = makeTexts(size - unusedIds - tags.length - 1 - 3);
  const bytes: Uint8Array[] = [...texts].map((text) => Buffer.from(text, 'latin1'));
  // Tokens with the same bytes as others.
  bytes.push(Buffer.from('the'), Buffer.from(' "'), Buffer.from('日', 'utf8'));
  const endToken = bytes.push(new Uint8Array(0)) - 1;
  const special = new Map([[endText, endToken]]);
  const added = new Map(special);
  for (const tag of tags) added.set(tag, bytes.push(Buffer.from(tag)) - 1);
  while (bytes.length < size) bytes.push(new Uint8Array(0));
  const idOf = new Map<string, number>();
  let longest = 0;
  for (const [id, of] of bytes.entries()) {
    const text = Buffer.from(of).toString('latin1');
    if (text !== '' && !idOf.has(text) && !added.has(text)) idOf.set(text, id);
    longest = Math.max(longest, of.length);
  }
  const decode = (tokens: readonly number[]) =>
    Buffer.concat(tokens.map((token) => bytes[token]!)).toString('utf8');
  const encode = (text: string) => {
    const rest = Buffer.from(text, 'utf8').toString('latin1');
    const tokens: number[] = [];
    for (let at = 0; at < rest.length; ) {
      let length = Math.min(longest, rest.length - at);
      while (!idOf.has(rest.slice(at, at + length))) length--;
      tokens.push(idOf.get(rest.slice(at, at + length))!);
      at += length;
    }
    return tokens;
  };
  const tokenizer: Tokenizer = {
    vocabularySize: size,
    added,
    special,
    missingBytes: new Set(),
    encode,
    encodeExactly: encode,
    decode,
    bytes: (token) => bytes[token]!,
    text: (token) => (token === endToken ? endText : decode([token])),
  };
  return { tokenizer, endToken };
}

/** Texts with one character for each byte. */
function makeTexts(count: number): Set<string> {
  const choose = randomChooser(7);
  const pick = (from: readonly string[]) => from[choose(from.length)]!;
  const texts = new Set(Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)));
  const add = (text: string) => texts.add(Buffer.from(text, 'utf8').toString('latin1'));
  for (let length = 1; length <= 128; length++)
    for (const one of [' ', '-', '=', '\n', '/']) add(one.repeat(length));
  for (let number = 0; number < 1000; number++) add(`${number}`);
  for (const text of [
    '":"',
    '","',
    '"}',
    '"]',
    '":{"',
    '"},"',
    '\\n',
    '\\"',
    '\\u00',
    ' "',
    '{"',
    'true',
    'null',
  ])
    add(text);
  for (const text of ['\xe2\x28', '\xc3\x28', '\xf0\x9f', '\x80\x80', 'a\xe2\x82', '\xed\xa0', '\xff\xfe'])
    texts.add(text);
  const syllables = [
    'a',
    'the',
    'ing',
    'er',
    'on',
    'st',
    're',
    'lo',
    'an',
    'ch',
    'ti',
    'ou',
    'is',
    'qu',
    'ed',
    'mo',
    'x',
  ];
  const foreign = [
    'й',
    'ст',
    'ова',
    'é',
    'ü',
    'ß',
    'λό',
    '日',
    '本',
    '語',
    '中',
    '한',
    '국',
    'ع',
    'न',
    '🙂',
    '𝒳',
    '─',
  ];
  const signs = ['"', '\\', '{', '}', ':', ',', '.', '(', ')', '_', '\n', '\t', ';', '<', '/', "'", '-', '@'];
  while (texts.size < count) {
    const parts = Array.from({ length: 1 + choose(4) }, () => pick(syllables)).join('');
    const kind = choose(20);
    if (kind < 8) add(` ${parts}`);
    else if (kind < 12) add(parts);
    else if (kind < 14) add(` ${parts[0]!.toUpperCase()}${parts.slice(1)}`);
    else if (kind < 16) add(parts + pick(signs) + (choose(2) ? pick(signs) : pick(syllables)));
    else if (kind < 17) add(pick(signs) + parts);
    else {
      const text = Array.from({ length: 1 + choose(5) }, () => pick(foreign)).join('');
      const encoded = Buffer.from((choose(3) ? '' : ' ') + text, 'utf8').toString('latin1');
      texts.add(kind < 19 ? encoded : encoded.slice(choose(2), encoded.length - choose(3)) || encoded);
    }
  }
  return texts;
}
