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
