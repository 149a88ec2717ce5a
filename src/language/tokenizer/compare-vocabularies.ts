import { TimeSlices } from '../../util/time-slices.ts';
import type { Tokenizer } from './tokenizer.ts';

/** The first id that means different tokens in two vocabularies, with both texts; null where one has no such token. */
export interface VocabularyDifference {
  token: number;
  texts: [string | null, string | null];
}

/** Compares vocabularies token by token; null if they are the same. The event loop stays free meanwhile. */
export async function compareVocabularies(
  first: Tokenizer,
  second: Tokenizer,
): Promise<VocabularyDifference | null> {
  if (first === second) return null;
  const shared = Math.min(first.vocabularySize, second.vocabularySize);
  const slices = new TimeSlices();
  for (let token = 0; token < shared; token++) {
    if (slices.over) await slices.pause();
    if (!isSame(first, second, token)) return { token, texts: [first.text(token), second.text(token)] };
  }
  if (first.vocabularySize === second.vocabularySize) return null;
  const text = (tokenizer: Tokenizer) => (shared < tokenizer.vocabularySize ? tokenizer.text(shared) : null);
  return { token: shared, texts: [text(first), text(second)] };
}

/** A special token has no bytes, so its text tells it. */
function isSame(first: Tokenizer, second: Tokenizer, token: number): boolean {
  const bytes = first.bytes(token);
  return (
    Buffer.compare(bytes, second.bytes(token)) === 0 &&
    (bytes.length > 0 || first.text(token) === second.text(token))
  );
}
