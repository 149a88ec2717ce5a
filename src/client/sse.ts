import { createParser, type EventSourceMessage } from 'eventsource-parser';

/** The messages of an event stream as they come. Ends where the bytes end; comments and retry hints are dropped. */
export async function* readEventStream(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<EventSourceMessage> {
  const ready: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => ready.push(message) });
  const decoder = new TextDecoder();
  for await (const chunk of bytes) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* ready.splice(0);
  }
}
