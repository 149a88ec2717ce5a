import { constants } from 'node:buffer';
import { ClientOptionError } from './errors.ts';

/**
 * How much a client reads, so that nothing that answers can fill its memory. Beyond `answerBytes` and `eventBytes` a
 * call rejects with a `ResponseTooLargeError` and its connection is dropped. Checkpoints go to disk or to their reader
 * and are as large as they are.
 */
export interface ClientLimits {
  /** Bytes of an answer; of a streamed completion, those of all its chunks. Default 268435456 (256 MiB). */
  answerBytes: number;
  /** Bytes from one event of a stream to the end of the next. Default 67108864 (64 MiB). */
  eventBytes: number;
  /** Bytes of an error's body that are read; the rest is left out. Default 1048576 (1 MiB). */
  errorBytes: number;
}

const defaults: ClientLimits = { answerBytes: 2 ** 28, eventBytes: 2 ** 26, errorBytes: 2 ** 20 };

/** As many bytes as are sure to fit into one text. */
const largest = constants.MAX_STRING_LENGTH;

/** @throws ClientOptionError */
export function readLimits(given: Partial<ClientLimits> = {}): ClientLimits {
  const read = (name: keyof ClientLimits): number => {
    const value = given[name] ?? defaults[name];
    if (Number.isInteger(value) && value >= 1 && value <= largest) return value;
    throw new ClientOptionError(
      `limits.${name} is ${value}. Give a whole number of bytes from 1 to ${largest}, which is as long as a text can be.`,
    );
  };
  return { answerBytes: read('answerBytes'), eventBytes: read('eventBytes'), errorBytes: read('errorBytes') };
}
