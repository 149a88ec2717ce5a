import type { AddedToken, TextRules, Writing } from './bpe.ts';
import type { JsonFields } from './json-fields.ts';

/** SentencePiece's character for a space. */
const space = '▁';

const byteToken = (byte: number) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;

/** Whether a file has words in characters, with spaces of their own, as Gemma's. */
export const isOfCharacters = (file: JsonFields): boolean => file.get('normalizer.type') === 'Replace';

/**
 * The rules of a vocabulary in characters, in which a character that is no token becomes its bytes. Tokens that a user of
 * SentencePiece has defined, such as runs of line breaks and tags of HTML, are taken wherever a text has them.
 *
 * @param vocab All tokens but the special ones.
 * @param defined The tokens that were defined so.
 */
export function byteFallback(
  file: JsonFields,
  vocab: Record<string, number>,
  defined: readonly AddedToken[],
): { rules: TextRules; writing: Writing } {
  refuseOthers(file, vocab);
  const bytes = Array.from({ length: 256 }, (_, byte) => vocab[byteToken(byte)] as number);
  const byteOf = new Map(bytes.map((_, byte) => [byteToken(byte), byte]));
  const whole = new Map<string, readonly number[]>();
  // Runs of spaces are made by merges, as long ones come first.
  for (const { content, id } of defined) if (!content.includes(space)) whole.set(content, [id]);
  // In a text it is no space.
  whole.set(
    space,
    [...Buffer.from(space)].map((byte) => bytes[byte] as number),
  );
  return {
    rules: { split: splitterOf(whole, vocab), normalize: (text) => text.replaceAll(space, ' ') },
    writing: {
      missingBytes: new Set(),
      symbols: (word) => word.replaceAll(' ', space),
      bytes(symbols) {
        const byte = byteOf.get(symbols);
        return byte === undefined ? Buffer.from(symbols.replaceAll(space, ' ')) : Uint8Array.of(byte);
      },
      whole,
      fallsBack: true,
    },
  };
}

function refuseOthers(file: JsonFields, vocab: Record<string, number>): void {
  file.expect('normalizer.pattern.String', ' ', 'martingale runs a normalizer that replaces spaces.');
  file.expect('normalizer.content', space, `martingale runs a normalizer that makes "${space}" of spaces.`);
  // After the normalizer it finds no space.
  if (file.get('pre_tokenizer') !== undefined) {
    file.expect('pre_tokenizer.type', 'Split', 'martingale runs a Split at spaces beside this normalizer.');
    file.expect(
      'pre_tokenizer.pattern.String',
      ' ',
      'martingale runs a Split at spaces beside this normalizer.',
    );
  }
  file.expect('model.byte_fallback', true, 'martingale reads tokenizers of characters with byte fallback.');
  for (let byte = 0; byte < 256; byte++)
    if (!Object.hasOwn(vocab, byteToken(byte)))
      throw file.wrong('model.vocab', `complete, but the byte ${byteToken(byte)} has no token`, vocab);
}

/** Splits a text at whole tokens, and between them where no token crosses: before spaces, mostly. */
function splitterOf(
  whole: ReadonlyMap<string, unknown>,
  vocab: Record<string, number>,
): (text: string) => Iterable<string> {
  /** Lengths of whole tokens by their first character, the longest first. */
  const lengths = new Map<string, number[]>();
  for (const text of [...whole.keys()].sort((one, other) => other.length - one.length)) {
    const known = lengths.get(text.charAt(0)) ?? [];
    if (known.at(-1) !== text.length) known.push(text.length);
    lengths.set(text.charAt(0), known);
  }
  /** What some token has before a space. */
  const crossed = new Set<string>();
  for (const token of Object.keys(vocab))
    for (const [before = ''] of token.matchAll(/[^▁](?=▁)/g)) crossed.add(before);
  function* words(text: string): Iterable<string> {
    let word = '';
    for (const [next] of text.matchAll(/ *[^ ]*/g)) {
      if (word !== '' && !crossed.has(word.charAt(word.length - 1))) {
        yield word;
        word = '';
      }
      word += next;
    }
    if (word !== '') yield word;
  }
  return function* split(text) {
    let done = 0;
    for (let at = 0; at < text.length; at++) {
      const length = lengths.get(text.charAt(at))?.find((most) => whole.has(text.slice(at, at + most)));
      if (length === undefined) continue;
      yield* words(text.slice(done, at));
      yield text.slice(at, at + length);
      done = at + length;
      at = done - 1;
    }
    yield* words(text.slice(done));
  };
}
