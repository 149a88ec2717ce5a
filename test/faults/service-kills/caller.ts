import type { Json } from '../../service/harness.ts';
import { apiKey, type MortalService } from './world.ts';

export interface Sent {
  method: string;
  path: string;
  body?: unknown;
  key: string | undefined;
}

/** A request with an Idempotency-Key, and its final answer. */
export interface Answered extends Sent {
  answer: Json;
}

/** A client that repeats unanswered requests with the same key once the service is back. */
export class Caller {
  /** Successful requests, in order. */
  readonly answered: Answered[] = [];
  readonly #service: MortalService;

  constructor(service: MortalService) {
    this.#service = service;
  }

  /** Posts with a key, which is the same in each run; returns the answer. */
  async post(key: string, path: string, body?: unknown): Promise<Json> {
    const sent = { method: 'POST', path, body, key };
    const { status, body: answer } = await this.send(sent);
    if (status !== 200) throw new Error(`${key}: ${status} ${JSON.stringify(answer)}`);
    this.answered.push({ ...sent, answer });
    return answer;
  }

  async get(path: string): Promise<Json> {
    const { status, body } = await this.send({ method: 'GET', path, key: undefined });
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  /** The weights file of a checkpoint. */
  async download(modelId: string, step: number): Promise<string> {
    const path = `/v1/preview/models/${modelId}/checkpoints/${step}/download`;
    const answer = await this.#ask(path, {}, async (response) => {
      if (response.status !== 200) throw new Error(`download: ${response.status} ${await response.text()}`);
      return response.text();
    });
    return answer ?? this.download(modelId, step);
  }

  /** Also returns the number of tries: with more than one, an earlier try may have taken effect. */
  async send({ method, path, body, key }: Sent): Promise<{ status: number; body: Json; tries: number }> {
    const headers = key === undefined ? {} : { 'idempotency-key': key };
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    for (let tries = 1; ; tries++) {
      const answer = await this.#ask(
        path,
        { method, headers, ...(body !== undefined && { body: text }) },
        async (response) => ({ status: response.status, body: JSON.parse(await response.text()) }),
      );
      if (answer) return { ...answer, tries };
    }
  }

  /** The events of a job up to the last, over as many connections as needed. */
  async follow(jobId: string, until: (event: Json) => boolean = isLast): Promise<Json[]> {
    const seen: Json[] = [];
    const path = `/v1/preview/training-jobs/${jobId}/events`;
    const isOver = () => seen.some(until);
    while (!isOver()) {
      const last = seen.at(-1);
      const headers = { accept: 'text/event-stream', ...(last && { 'last-event-id': last.id }) };
      await this.#ask(path, { headers }, async (response) => {
        if (response.status !== 200) throw new Error(`events: ${response.status} ${await response.text()}`);
        for await (const event of eventsOf(response)) {
          seen.push(event);
          if (isOver()) return;
        }
        if (!isOver()) throw new TypeError('The stream ended before the job did.');
      });
    }
    return seen;
  }

  /** Resolves to undefined if the service died before the answer was complete. */
  async #ask<Result>(
    path: string,
    options: RequestInit,
    read: (response: Response) => Promise<Result>,
  ): Promise<Result | undefined> {
    const running = await this.#service.running();
    try {
      const headers = { authorization: `Bearer ${apiKey}`, ...options.headers };
      return await read(await fetch(`${running.url}${path}`, { ...options, headers }));
    } catch (error) {
      // fetch and body readers reject with a TypeError when the connection breaks.
      if (!(error instanceof TypeError)) throw error;
      await this.#service.bury(running);
      return undefined;
    }
  }
}

const isLast = ({ type }: Json) => type === 'training_ended' || type === 'training_failed';

async function* eventsOf(response: Response): AsyncGenerator<Json> {
  let text = '';
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk;
    const frames = text.split('\n\n');
    text = frames.pop() ?? '';
    for (const frame of frames) {
      const data = frame.split('\n').find((line) => line.startsWith('data: {'));
      if (data) yield JSON.parse(data.slice('data: '.length));
    }
  }
}
