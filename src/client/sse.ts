import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { OpenAnswer, TimeoutOption } from './call.ts';
import { ResponseTooLargeError, TimeoutError } from './errors.ts';

/** Characters that are gathered before the parser looks for an event's end in them. */
const lookedAtTogether = 16_384;

/** How long an event may take from its first piece to its last. */
export interface EventDeadline {
  timeoutMs: number;
  timeoutOption: TimeoutOption;
}

/**
 * The messages of an event stream as they come. Ends where the bytes end; comments and retry hints are dropped.
 *
 * @param bytes The stream's body.
 * @param deadline Default: none but that of the body.
 * @throws ResponseTooLargeError, TimeoutError for an event that does not come to its end.
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
  /** Since the last event. */
  let bytesBehind = 0;
  let begunMs: number | undefined;
  for await (const chunk of bytes) {
    unread += decoder.decode(chunk, { stream: true });
    bytesBehind += chunk.byteLength;
    if (unread.length >= lookedAtTogether || /[\r\n]/.test(unread)) {
      parser.feed(unread);
      unread = '';
    }
    if (ready.length > 0) bytesBehind = 0;
    if (bytesBehind > limits.eventBytes)
      throw new ResponseTooLargeError(facts, 'eventBytes', limits.eventBytes);
    // A service that has nothing to say yet sends comments.
    if (ready.length > 0 || commented) begunMs = undefined;
    else begunMs ??= performance.now();
    commented = false;
    if (deadline && begunMs !== undefined && performance.now() - begunMs > deadline.timeoutMs) {
      const detail = `an event had begun and was not whole after ${deadline.timeoutMs} ms`;
      throw new TimeoutError({ ...facts, detail }, deadline.timeoutMs, deadline.timeoutOption);
    }
    yield* ready.splice(0);
  }
}
