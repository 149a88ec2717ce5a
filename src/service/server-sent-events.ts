import type { Context } from 'hono';

const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Proxies that collect responses would hold the events back.
  'x-accel-buffering': 'no',
};

/**
 * Answers with a stream of events, made as the client takes them. `frames` is left early, and `signal` aborts, when
 * the client goes away. `ended` is called once, when nothing more will come.
 */
export function serverSentEvents(
  context: Context,
  frames: (signal: AbortSignal) => AsyncGenerator<string>,
  ended: () => void = () => {},
): Response {
  const gone = new AbortController();
  const encoder = new TextEncoder();
  const left = context.req.raw.signal;
  // Of a client that left before the first event, the stream is never asked for one.
  left.addEventListener('abort', ended, { once: true });
  const iterator = frames(AbortSignal.any([gone.signal, left]));
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await iterator.next().catch((error: unknown) => {
        ended();
        throw error;
      });
      if (!next.done) return controller.enqueue(encoder.encode(next.value));
      ended();
      controller.close();
    },
    async cancel() {
      gone.abort(new Error('The client went away.'));
      ended();
      await iterator.return(undefined);
    },
  });
  return context.body(body, 200, headers);
}

export const dataFrame = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
