import { joined } from './joined.ts';

/** An answer of a server that is longer than what it is read to. */
export class AnswerTooLarge extends Error {}

/**
 * The bytes of an answer, which a broken or hostile server may never end.
 * @throws AnswerTooLarge beyond `maxBytes`
 */
export async function readAnswer(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Uint8Array[] = [];
  for await (const piece of withinBytes(body, maxBytes)) pieces.push(piece);
  return joined(pieces);
}

/** Reads a body as `readAnswer` does, as UTF-8 text. */
export const readText = async (body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> =>
  Buffer.from((await readAnswer(body, maxBytes)).buffer).toString();

/** The pieces of an answer, up to `maxBytes`. @throws AnswerTooLarge */
export async function* withinBytes(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.byteLength;
    if (bytes > maxBytes) throw new AnswerTooLarge(`its answer has more than ${maxBytes} bytes`);
    yield piece;
  }
}

/** Where an answer leads to; null if it is no redirect. */
export function redirectOf(
  status: number,
  location: string | string[] | null | undefined,
  from: string | URL,
): URL | null {
  if (![301, 302, 303, 307, 308].includes(status)) return null;
  const target = Array.isArray(location) ? location[0] : location;
  return target ? URL.parse(target, String(from)) : null;
}
