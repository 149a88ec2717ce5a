import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { OpenAnswer, TimeoutOption } from './call.ts';
import { RequestError, tooLarge } from './errors.ts';

/** Characters that are collected before the parser searches them for the end of an event. */
const parseBatchSize = 16_384;

/** Maximum time from the first piece of an event to its last. */
interface EventDeadline {
  timeoutMs: number;
  timeoutOption: TimeoutOption;
}

/**
 * Reads the messages of an event stream until the bytes end. Comments and retry hints are dropped.
 *
 * @param bytes The stream's body.
 * @param deadline Default: only the deadline of the body.
 * @throws RequestError of code `response_too_large` or `timed_out` for an event that does not end.
 */
export async function* readEventStream(
  { facts, limits }: Pick<OpenAnswer, 'facts' | 'limits'>,
  bytes: AsyncIterable<Uint8Array>,
  deadline?: EventDeadline,
): AsyncGenerator<EventSourceMessage> {
  const ready: EventSourceMessage[] = [];
  let commented = false;
  const parser = createParser({
    onEvent: (message) => ready.push(message),
    onComment: () => {
      commented = true;
    },
  });
  const decoder = new TextDecoder();
  let unread = '';
  /** Bytes since the last event. */
  let bytesBehind = 0;
  let startedMs: number | undefined;
  for await (const chunk of bytes) {
    unread += decoder.decode(chunk, { stream: true });
    bytesBehind += chunk.byteLength;
    if (unread.length >= parseBatchSize || /[\r\n]/.test(unread)) {
      parser.feed(unread);
      unread = '';
    }
    if (ready.length > 0) bytesBehind = 0;
    if (bytesBehind > limits.eventBytes) throw tooLarge(facts, 'eventBytes', limits);
    // Services send comments as keep-alives between events.
    if (ready.length > 0 || commented) startedMs = undefined;
    else startedMs ??= performance.now();
    commented = false;
    if (deadline && startedMs !== undefined && performance.now() - startedMs > deadline.timeoutMs) {
      const detail = `an event was incomplete after ${deadline.timeoutMs} ms`;
      throw new RequestError('timed_out', { ...facts, detail }, { option: deadline.timeoutOption });
    }
    yield* ready.splice(0);
  }
}
