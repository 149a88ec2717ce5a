import type { Context } from 'hono';
import { eventStreamHeaders } from '../util/event-stream.ts';
import { messageOf } from './errors.ts';
import { exchangeOf } from './http/exchange.ts';
import type { ServiceLog } from './telemetry.ts';

const encoder = new TextEncoder();

interface StreamOptions {
  log: ServiceLog;
  /** Event in the log if `chunks` throws. */
  event: string;
  /** Called once the stream is over. */
  ended?: () => void;
}

/**
 * A body at the client's pace. If the client disconnects or closes its side, `signal` aborts and `chunks` is
 * stopped. If `chunks` throws, the error is logged and the connection cut: the status is sent already.
 */
export function streamedBody(
  context: Context,
  chunks: (signal: AbortSignal) => AsyncGenerator<string | Uint8Array>,
  { log, event, ended = () => {} }: StreamOptions,
): ReadableStream<Uint8Array> {
  const cancelled = new AbortController();
  const exchange = exchangeOf(context);
  const left = exchange.signalWhileNeeded();
  // A client may leave before the stream is read at all; `cancel` does not run then.
  left.addEventListener('abort', () => {
    cancelled.abort(left.reason);
    ended();
  });
  if (left.aborted) cancelled.abort(left.reason);
  const iterator = chunks(cancelled.signal);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const next = await iterator.next();
          if (!next.done) {
            const { value } = next;
            return controller.enqueue(typeof value === 'string' ? encoder.encode(value) : value);
          }
          ended();
          controller.close();
        } catch (error) {
          ended();
          exchange.cut();
          const { path } = context.req;
          if (!left.aborted)
            log({ level: 'error', event, request: exchange.requestId, path, error: messageOf(error) });
        }
      },
      async cancel() {
        cancelled.abort(new Error('The client disconnected.'));
        ended();
        await iterator.return(undefined);
      },
    },
    // Reads nothing ahead, so an answer to HEAD reads nothing at all.
    { highWaterMark: 0 },
  );
}

/** Answers with an event stream. */
export function serverSentEvents(
  context: Context,
  frames: (signal: AbortSignal) => AsyncGenerator<string>,
  { log, ended }: { log: ServiceLog; ended: () => void },
): Response {
  exchangeOf(context).gather();
  const body = streamedBody(context, frames, { log, event: 'stream_failed', ended });
  return new Response(body, { headers: eventStreamHeaders });
}
