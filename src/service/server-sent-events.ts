import type { Context } from 'hono';
import { messageOf } from './errors.ts';
import { requestIdOf, type ServiceLog } from './telemetry.ts';
import { wireOf } from './wire/wire.ts';

const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Keeps proxies such as nginx from buffering the events.
  'x-accel-buffering': 'no',
};

export interface StreamEnd {
  log: ServiceLog;
  /** Called once the stream is over. */
  ended: () => void;
}

/**
 * Answers with an event stream at the client's pace. If the client disconnects or closes its side,
 * `signal` aborts and `frames` is stopped. If `frames` throws, the error is logged and the connection cut.
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
  // A client may leave before the stream is read at all; `cancel` does not run then.
  left.addEventListener('abort', ended, { once: true });
  const iterator = frames(AbortSignal.any([gone.signal, left]));
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await iterator.next().catch((error: unknown) => {
        ended();
        // The status is sent already.
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
