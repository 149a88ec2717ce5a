import type { Context } from 'hono';
import { messageOf } from './errors.ts';
import type { ServiceLog } from './log.ts';
import { requestIdOf } from './request-headers.ts';
import { wireOf } from './wire/wire.ts';

const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Proxies that collect responses would hold the events back.
  'x-accel-buffering': 'no',
};

export interface StreamEnd {
  log: ServiceLog;
  /** Called when nothing more will come. */
  ended: () => void;
}

/**
 * Answers with a stream of events, made as the client takes them. `frames` is left early, and `signal` aborts, when
 * the client goes away, or closes its side of the connection. What `frames` throws goes into the log, and the
 * connection is cut.
 */
export function serverSentEvents(
  context: Context,
  frames: (signal: AbortSignal) => AsyncGenerator<string>,
  { log, ended }: StreamEnd,
): Response {
  const gone = new AbortController();
  const encoder = new TextEncoder();
  const wire = wireOf(context);
  const left = wire.whileWanted();
  // Of a client that left before the first event, the stream is never asked for one.
  left.addEventListener('abort', ended, { once: true });
  const iterator = frames(AbortSignal.any([gone.signal, left]));
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await iterator.next().catch((error: unknown) => {
        ended();
        // The status has gone out.
        wire.cut();
        if (left.aborted) return null;
        const details = { request: requestIdOf(context), path: context.req.path, error: messageOf(error) };
        log({ level: 'error', event: 'stream_failed', ...details });
        return null;
      });
      if (next === null) return;
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
