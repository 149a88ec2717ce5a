const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Stops proxies from buffering the events.
  'x-accel-buffering': 'no',
};

/** Answers with server-sent events, produced as the client reads them. `abandon` runs when the client disconnects. */
export function eventStream(frames: AsyncGenerator<string>, abandon: () => void): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await frames.next();
      if (next.done) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    async cancel() {
      abandon();
      await frames.return(undefined);
    },
  });
  return new Response(body, { headers });
}

export const dataFrame = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
export const eventFrame = (type: string, data: object) => `event: ${type}\n${dataFrame(data)}`;
