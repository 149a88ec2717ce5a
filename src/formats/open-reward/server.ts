import { setTimeout as sleep } from 'node:timers/promises';
import { createParser } from 'eventsource-parser';
import { Agent, type Dispatcher, request } from 'undici';
import { MartingaleError } from '../../contract/index.ts';
import { AnswerTooLarge, readText, redirectOf, withinBytes } from '../../util/answers.ts';
import { hasCode, messageOf } from '../../util/error.ts';

/**
 * - `environment_server_away`: it cannot be reached, fails, or goes silent
 * - `environment_server_refused`: it refuses a request, or says something that the Open Reward Standard does not have
 * - `environment_failed`: its environment threw, or its session has ended
 * - `environment_not_servable`: an environment has what cannot be served over the standard
 * - `bad_option`: an option names what the server does not have, or has a value that cannot be used
 */
export type OpenRewardErrorCode =
  | 'environment_server_away'
  | 'environment_server_refused'
  | 'environment_failed'
  | 'environment_not_servable'
  | 'bad_option';

export class OpenRewardError extends MartingaleError<OpenRewardErrorCode> {
  /** HTTP status of the server's answer; null without one. */
  readonly status: number | null;

  constructor(
    code: OpenRewardErrorCode,
    message: string,
    { status = null, cause }: { status?: number | null; cause?: unknown } = {},
  ) {
    super(code, message, { cause });
    this.status = status;
  }
}

interface RequestOptions {
  body?: object;
  /** The session that the request is for. */
  session?: string;
  headers?: Record<string, string>;
  /** Of a rollout, whose deadline ends every wait. Default: no wait takes longer than five minutes. */
  signal?: AbortSignal | undefined;
  /** Ends the wait of a request outside of a rollout. */
  stop?: AbortSignal | undefined;
  /** Whether a request may be sent again when it is not known whether the server got it. Default: of a GET. */
  isHarmless?: boolean;
}

/** Pauses before a request is sent again, in milliseconds. */
const pauses = [200, 500, 1000, 3000];

/** Longest silence of a server: it sends something every 10 seconds while a call runs. */
const silenceMs = 60_000;

/** Longest answer, with all events of a call, and what is read of an error. */
const [maxAnswerBytes, maxErrorBytes] = [64 * 2 ** 20, 2 ** 16];

/** Longest time of an answer outside of a rollout, however slowly its bytes come. */
const wholeMs = 300_000;

/** A connection that lasted this long was no failure to connect. */
const steadyMs = 10_000;

/** Longest wait that a server may ask for before the next try. */
const maxWaitMs = 30_000;

/** A server of the Open Reward Standard. */
export class OpenRewardServer {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #dispatcher: Dispatcher;

  constructor({ url, apiKey }: { url: string; apiKey?: string | undefined }) {
    if (!URL.canParse(url) || !/^https?:/.test(url))
      throw new OpenRewardError('bad_option', `\`url\` is ${url}. Pass an http or https address.`);
    this.url = url.replace(/\/+$/, '');
    this.#headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    const deadlines = { connectTimeout: silenceMs, headersTimeout: silenceMs, bodyTimeout: silenceMs };
    this.#dispatcher = new Agent(deadlines);
  }

  /** The JSON of an answer. Waits for a server that is away or says that it is still starting. */
  async json(method: 'GET' | 'POST', path: string, options: RequestOptions = {}): Promise<unknown> {
    const { isHarmless = method === 'GET', stop } = options;
    const ends = [AbortSignal.timeout(wholeMs), ...(stop ? [stop] : [])];
    const { signal = AbortSignal.any(ends) } = options;
    for (let attempt = 0; ; attempt++) {
      try {
        const { body } = await this.#send(method, path, { ...options, signal });
        return JSON.parse(await readText(body, maxAnswerBytes));
      } catch (error) {
        (options.signal ?? stop)?.throwIfAborted();
        if (error instanceof AnswerTooLarge) throw this.#tooLarge(path, error);
        const refused = error instanceof OpenRewardError ? error : this.#away(path, error);
        const pause = pauses[attempt];
        const isStarting = refused.status === 503;
        if (isStarting && options.signal) {
          // An environment may take minutes to set itself up; the deadline of the rollout ends the wait.
          await sleep(Math.min(maxWaitMs, retryAfterOf(refused) ?? pauses[2] ?? 0), undefined, { signal });
          attempt = -1;
          continue;
        }
        const isAway = refused.code === 'environment_server_away';
        if (!isAway || !(isHarmless || isUnsent(refused)) || pause === undefined) throw refused;
        await sleep(pause, undefined, { signal });
      }
    }
  }

  /**
   * The result of a call that the server streams. When the connection is cut or silent, the call goes on there, and this
   * takes it up again by its `task_id`.
   */
  async streamed(
    path: string,
    { body, onTask, ...options }: RequestOptions & { onTask?: (task: string) => void },
  ): Promise<string> {
    const { signal } = options;
    let task: string | undefined;
    for (let attempt = 0; ; ) {
      let data = '';
      let problem: unknown = 'it ended early';
      const begunAt = performance.now();
      try {
        const sent = body && { ...body, ...(task === undefined ? {} : { task_id: task }) };
        const answer = await this.#send('POST', path, { ...options, ...(sent ? { body: sent } : {}) });
        for await (const { event, data: piece } of eventsOf(withinBytes(answer.body, maxAnswerBytes))) {
          if (event === 'task_id') {
            task = piece.trim();
            onTask?.(task);
          } else if (event === 'chunk') data += piece;
          else if (event === 'end') return data + piece;
          else if (event === 'error')
            throw new OpenRewardError(
              'environment_failed',
              `The environment at ${this.url}${path} failed: ${piece.slice(0, 500)}`,
            );
        }
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof AnswerTooLarge) throw this.#tooLarge(path, error);
        const isFinal = error instanceof OpenRewardError && error.code !== 'environment_server_away';
        if (isFinal) throw error;
        problem = error;
      }
      // A long call may be cut often, as by a proxy; a server that always cuts at once is given up.
      if (performance.now() - begunAt > steadyMs && !isUnsent(problem)) attempt = 0;
      const pause = pauses[attempt++];
      // Without the name of the call nobody knows whether it has begun: a second one might act twice.
      if ((task === undefined && !isUnsent(problem)) || pause === undefined)
        throw problem instanceof OpenRewardError ? problem : this.#away(path, problem);
      await sleep(pause, undefined, { signal });
    }
  }

  async close(): Promise<void> {
    await this.#dispatcher.close();
  }

  async #send(
    method: 'GET' | 'POST',
    path: string,
    { body, session, headers, signal }: RequestOptions,
  ): Promise<Dispatcher.ResponseData> {
    let answer: Dispatcher.ResponseData;
    try {
      answer = await request(`${this.url}${path}`, {
        method,
        dispatcher: this.#dispatcher,
        headers: {
          ...this.#headers,
          ...headers,
          ...(session === undefined ? {} : { 'x-session-id': session }),
          ...(body ? { 'content-type': 'application/json' } : {}),
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
        ...(signal ? { signal } : {}),
      });
    } catch (cause) {
      signal?.throwIfAborted();
      throw this.#away(path, cause);
    }
    const { statusCode: status } = answer;
    if (status < 300) return answer;
    const target = redirectOf(status, answer.headers.location, this.url);
    if (target !== null) {
      await answer.body.dump();
      throw new OpenRewardError(
        'environment_server_refused',
        `The environment server ${this.url} redirects ${path} to ${target.href}, which is not followed: keys and secrets are for the server that you name. If it is the right one, give its address.`,
        { status },
      );
    }
    const text = (await readText(answer.body, maxErrorBytes).catch(() => '')).slice(0, 500);
    const isAway = status === 429 || status === 502 || status === 503 || status === 504;
    const isEnvironments = status === 500 || status === 410 || (status === 404 && session !== undefined);
    throw new OpenRewardError(
      isAway
        ? 'environment_server_away'
        : isEnvironments
          ? 'environment_failed'
          : 'environment_server_refused',
      `the environment server ${this.url} answered ${path} with ${status}: ${text}`,
      { status, cause: { retryAfter: answer.headers['retry-after'] } },
    );
  }

  #tooLarge(path: string, cause: AnswerTooLarge): OpenRewardError {
    const message = `the environment server ${this.url} answered ${path}: ${cause.message}`;
    return new OpenRewardError('environment_server_refused', message, { cause });
  }

  #away(path: string, cause: unknown): OpenRewardError {
    const why = messageOf(cause);
    return new OpenRewardError(
      'environment_server_away',
      `The environment server ${this.url} did not answer ${path} to the end: ${why}`,
      { cause },
    );
  }
}

/** Whether there was no connection at all, so that the server has not got the request. */
const isUnsent = (error: unknown): boolean =>
  OpenRewardError.isInstance(error) &&
  error.cause instanceof Error &&
  (hasCode(error.cause, 'ECONNREFUSED') || hasCode(error.cause, 'UND_ERR_CONNECT_TIMEOUT'));

function retryAfterOf({ cause }: OpenRewardError): number | undefined {
  const seconds = Number((cause as { retryAfter?: unknown } | undefined)?.retryAfter);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined;
}

async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<{ event: string; data: string }> {
  const ready: { event: string; data: string }[] = [];
  const parser = createParser({ onEvent: ({ event = 'message', data }) => void ready.push({ event, data }) });
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* ready.splice(0);
  }
}
