/** Headers of an answer that is a stream of server-sent events. */
export const eventStreamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Keeps proxies such as nginx from buffering the events.
  'x-accel-buffering': 'no',
};

/** An event that holds a value as JSON. */
export const dataFrame = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;

/** What ends a stream of a chat completion. */
export const doneFrame = 'data: [DONE]\n\n';
