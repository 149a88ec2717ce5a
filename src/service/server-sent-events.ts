import type { Context } from 'hono';

const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Proxies that collect responses would hold the events back.
  'x-accel-buffering': 'no',
};

/**
 * Answers with a stream of events, made as the client takes them. `frames` is left early, and `signal` aborts, when
 * the client goes away.
 */
export function serverSentEvents(
  context: Context,
  frames: (signal: AbortSignal) => AsyncGenerator<string>,
): Response {
  const gone = new AbortController();
  const encoder = new TextEncoder();
  const iterator = frames(AbortSignal.any([gone.signal, context.req.raw.signal]));
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await iterator.next();
      if (next.done) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    async cancel() {
      gone.abort(new Error('The client went away.'));
      await iterator.return(undefined);
    },
  });
  return context.body(body, 200, headers);
}

export const dataFrame = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
