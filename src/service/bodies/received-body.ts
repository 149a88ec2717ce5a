import type { ByteSource } from '../json/byte-source.ts';
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

/** What of a body its reader needs. */
export type BodyBytes = Pick<ReceivedBody, 'bytes' | 'source'>;

/** All bytes of a body whose length is bounded to what may be in memory. */
export const contentOf = ({ source, bytes }: BodyBytes): Promise<Buffer> =>
  source.read({ start: 0, end: bytes });
