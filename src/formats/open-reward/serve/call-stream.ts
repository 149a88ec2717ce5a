import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeThrown } from '../../../environment/index.ts';
import { eventStreamHeaders } from '../../../util/event-stream.ts';

/** How long the result of a call is kept for a client whose connection was cut. */
const lingerMs = 60_000;

/** Longest piece of a result in one event, in UTF-16 units. */
const pieceLength = 4096;

type Result = { text: string } | { error: string };

/** The calls of a session that run or have just ended. A client that was cut off asks for its call again by its id. */
export class Calls {
  readonly #results = new Map<string, Promise<Result>>();
  #running = 0;

  /** Number of calls without a result. */
  get running(): number {
    return this.#running;
  }

  /** Runs a call and gives its id. */
  start(run: () => Promise<object>): string {
    const id = randomUUID();
    this.#running++;
    const result = run().then(
      (value): Result => ({ text: JSON.stringify(value) }),
      (error): Result => ({ error: describeThrown(error) }),
    );
    this.#results.set(id, result);
    void result.then(() => {
      this.#running--;
      setTimeout(() => this.#results.delete(id), lingerMs).unref();
    });
    return id;
  }

  get(id: string): Promise<Result> | undefined {
    return this.#results.get(id);
  }
}

/** The events of a call: its id, a sign of life now and then, and its result in pieces. */
export async function* callEvents(
  id: string,
  result: Promise<Result> | undefined,
  { pingMs, signal }: { pingMs: number; signal: AbortSignal },
): AsyncGenerator<string> {
  if (!result) return yield event('error', 'unknown task_id');
  yield event('task_id', id);
  for (;;) {
    const waiting = new AbortController();
    const ended = await Promise.race([
      result,
      sleep(pingMs, undefined, { signal: AbortSignal.any([signal, waiting.signal]) }).catch(() => undefined),
    ]);
    waiting.abort();
    if (signal.aborted) return;
    if (ended === undefined) {
      yield ': ping\n\n';
      continue;
    }
    if ('error' in ended) return yield event('error', ended.error);
    const pieces = piecesOf(ended.text);
    for (const [at, piece] of pieces.entries())
      yield event(at === pieces.length - 1 ? 'end' : 'chunk', piece);
    return;
  }
}

export const event = (name: string, data: string): string =>
  `event: ${name}\n${data
    .split(/\r\n|\r|\n/)
    .map((line) => `data: ${line}\n`)
    .join('')}\n`;

/**
 * A text in pieces. None begins with a space, which clients take for the event's own, or within a character of two
 * units.
 */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  let begin = 0;
  while (begin < text.length) {
    let end = begin + pieceLength;
    while (end < text.length && /[\s\udc00-\udfff]/.test(text.charAt(end))) end++;
    pieces.push(text.slice(begin, end));
    begin = end;
  }
  return pieces;
}

/** A body of events. Without a reader they end. */
export function eventStream(events: (signal: AbortSignal) => AsyncGenerator<string>): Response {
  const left = new AbortController();
  const iterator = events(left.signal);
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await iterator.next();
      if (next.done) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    cancel: () => left.abort(),
  });
  return new Response(body, { headers: eventStreamHeaders });
}
