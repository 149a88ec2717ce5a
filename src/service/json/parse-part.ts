import { isUtf8 } from 'node:buffer';
import { malformed } from './faults.ts';

/** JSON text that is a part of a body, as `JSON.parse` reads it. Throws what `malformed` makes. */
export function parsePart(bytes: Buffer, at?: number): unknown {
  if (!isUtf8(bytes)) throw malformed('the text is no UTF-8');
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw malformed(at === undefined || at === 0 ? reason : `${reason}, in the value at byte ${at}`);
  }
}
