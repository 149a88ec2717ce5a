import { isUtf8 } from 'node:buffer';
import type { ByteSource } from '../json/byte-source.ts';
import { malformed } from '../json/faults.ts';
import type { IncomingFile } from '../store/incoming-file.ts';

/** The whole body of a request: in memory where it is small, else in a file that goes with the request. */
export interface ReceivedBody {
  bytes: number;
  source: ByteSource;
  /** All of it, where it is in memory. */
  memory: Buffer | null;
  /** Where it is not. */
  file: IncomingFile | null;
  /** SHA-256, in hexadecimal, of the request's method, path and body. */
  fingerprint: string;
}

/** Its text, without a byte order mark. Throws what is no UTF-8. */
export async function textOf({ source, bytes }: ReceivedBody): Promise<string> {
  const content = await source.read({ start: 0, end: bytes });
  if (!isUtf8(content)) throw malformed('the text is no UTF-8');
  return new TextDecoder().decode(content);
}
