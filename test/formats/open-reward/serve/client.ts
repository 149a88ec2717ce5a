import { randomUUID } from 'node:crypto';
import { createParser } from 'eventsource-parser';

export interface StreamEvent {
  event: string | undefined;
  data: string;
}

/** Requests of the standard, as they are on the wire. */
export class RawClient {
  readonly url: string;
  readonly #headers: Record<string, string>;

  constructor(url: string, headers: Record<string, string> = {}) {
    this.url = url;
    this.#headers = headers;
  }

  send(path: string, { session, body, headers, signal }: SendOptions = {}): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        ...this.#headers,
        ...headers,
        ...(session === undefined ? {} : { 'x-session-id': session }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  }

  /** The status of an answer, and its words or its value. */
  async answer(path: string, options: SendOptions = {}): Promise<[number, unknown]> {
    const response = await this.send(path, options);
    const value: unknown = await response.json();
    const isRefusal = typeof value === 'object' && value !== null && 'detail' in value;
    return [response.status, isRefusal ? value.detail : value];
  }

  /** A session of a task of the split train. */
  async begin(index = 0): Promise<string> {
    const session = randomUUID();
    const [status, words] = await this.answer('/create', { session, body: { split: 'train', index } });
    if (status !== 200) throw new Error(`${status}: ${words}`);
    return session;
  }

  async *events(session: string, body: object, signal?: AbortSignal): AsyncGenerator<StreamEvent> {
    const response = await this.send('/call', { session, body, ...(signal ? { signal } : {}) });
    if (!response.body || response.status !== 200)
      throw new Error(`${response.status}: ${await response.text()}`);
    const ready: StreamEvent[] = [];
    const parser = createParser({ onEvent: ({ event, data }) => void ready.push({ event, data }) });
    const decoder = new TextDecoder();
    for await (const chunk of response.body) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      yield* ready.splice(0);
    }
  }

  /** The result of a call, or the words of its error event. */
  async call(session: string, name: string, input: object = {}): Promise<unknown> {
    return this.result(session, { name, input });
  }

  async result(session: string, body: object): Promise<unknown> {
    let text = '';
    for await (const { event, data } of this.events(session, body)) {
      if (event === 'error') return data;
      if (event === 'chunk' || event === 'end') text += data;
    }
    return JSON.parse(text);
  }
}

interface SendOptions {
  session?: string;
  body?: object | string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}
