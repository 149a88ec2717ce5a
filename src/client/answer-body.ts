import type { CallFacts } from './errors.ts';
import { ResponseTooLargeError } from './errors.ts';
import { GatheredBytes } from './gathered-bytes.ts';
import type { ClientLimits } from './limits.ts';

export interface BodyText {
  /** To be read once; reading it any longer does not put its deadline off. */
  pieces: AsyncIterable<Uint8Array>;
  /** Its length as the service says. */
  contentLength: number | null;
  facts: Omit<CallFacts, 'detail'>;
  limits: ClientLimits;
}

/** The whole body. One that is too large is not read on: its connection is dropped. */
export async function wholeText({ pieces, contentLength, facts, limits }: BodyText): Promise<string> {
  const gathered = new GatheredBytes();
  for await (const piece of pieces) {
    gathered.add(piece);
    if (Math.max(gathered.bytes, contentLength ?? 0) <= limits.answerBytes) continue;
    throw new ResponseTooLargeError(facts, 'answerBytes', limits.answerBytes);
  }
  return gathered.text();
}

/** As much of a body as an error tells of. The rest is not read: its connection is dropped. */
export async function beginningText({ pieces, limits }: BodyText): Promise<string> {
  const gathered = new GatheredBytes();
  for await (const piece of pieces) {
    gathered.add(piece.subarray(0, limits.errorBytes - gathered.bytes));
    if (gathered.bytes >= limits.errorBytes) break;
  }
  return gathered.text();
}

/** The pieces of a stream that is one answer. */
export async function* withinAnswer({ pieces, facts, limits }: BodyText): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.byteLength;
    if (bytes > limits.answerBytes) throw new ResponseTooLargeError(facts, 'answerBytes', limits.answerBytes);
    yield piece;
  }
}
