import { setTimeout as sleep } from 'node:timers/promises';
import { type MessageEvent, WebSocket } from 'undici';
import { describeThrown } from '../../environment/index.ts';
import { withDeadline } from '../../util/deadline.ts';
import { type Connection, connect } from './connection.ts';
import { OpenEnvError } from './error.ts';
import { type Frame, frameSchema, type Observed } from './protocol.ts';
import { away, pauseBefore, startingOf, whileStarting } from './starting.ts';

interface EpisodeOptions {
  /** Address of the server, with http or https. */
  url: string;
  headers: Record<string, string>;
  /** What the environment is reset with: seed, split, index and fields of its own. */
  reset: Record<string, unknown>;
  /** Longest wait for the answer to a reset or a step, in milliseconds. */
  stepTimeoutMs: number;
  /** How long to wait for a server that is not up, in milliseconds. */
  connectTimeoutMs: number;
  signal: AbortSignal;
}

/** How long a server may take to close a connection before it is cut, in milliseconds. */
const closingMs = 2000;

/** Codes of errors after which the environment cannot go on. */
const failures = new Set(['EXECUTION_ERROR', 'FACTORY_ERROR', 'SESSION_ERROR']);

/** One episode: a WebSocket to a server, which makes an environment for it. */
export class Episode {
  readonly #socket: WebSocket;
  readonly #connection: Connection;
  readonly #options: EpisodeOptions;
  /** Frames that came and nobody has awaited, and the wait for the next one. */
  readonly #frames: Frame[] = [];
  #waiting: PromiseWithResolvers<Frame> | undefined;
  #end: OpenEnvError | undefined;
  /** What the environment showed after the reset. */
  first: Observed = { observation: {}, reward: null, done: false };
  isDone = false;

  private constructor(options: EpisodeOptions) {
    this.#connection = connect(options);
    const { socket } = this.#connection;
    this.#socket = socket;
    this.#options = options;
    socket.addEventListener('message', (event) => this.#receive(event));
    socket.addEventListener('error', (event) =>
      this.#fail(this.#unopened() ?? away(options.url, event.message || 'it was cut')),
    );
    socket.addEventListener('close', ({ code, reason }) =>
      this.#fail(away(options.url, `it closed the connection (${code}${reason ? `: ${reason}` : ''})`)),
    );
  }

  /**
   * Connects and resets the environment. While the server is not up, waits up to `connectTimeoutMs`; while it has no
   * capacity, until the signal aborts.
   * @throws OpenEnvError
   */
  static async open(options: EpisodeOptions): Promise<Episode> {
    for (let attempt = 0; ; attempt++) {
      const episode = await whileStarting(options, () => Episode.#connected(options));
      try {
        const frame = await episode.#ask({ type: 'reset', data: options.reset }, options.signal);
        if (frame.type === 'observation') {
          const { done } = frame.data;
          if (done) throw failed(options.url, 'was over at its reset, before the model said anything');
          episode.first = frame.data;
          return episode;
        }
        if (frame.data.code !== 'CAPACITY_REACHED') throw refused(options.url, frame);
      } catch (error) {
        episode.close();
        throw error;
      }
      episode.close();
      await sleep(pauseBefore(attempt), undefined, { signal: options.signal });
    }
  }

  static async #connected(options: EpisodeOptions): Promise<Episode> {
    const episode = new Episode(options);
    try {
      await episode.#opened();
      return episode;
    } catch (error) {
      episode.close();
      throw startingOf(episode.#connection.problem()) ?? error;
    }
  }

  /** Takes a step. @throws OpenEnvError */
  async step(action: object, signal: AbortSignal): Promise<Observed> {
    const frame = await this.#ask({ type: 'step', data: action }, signal);
    if (frame.type === 'error') throw refused(this.#options.url, frame);
    this.isDone ||= frame.data.done;
    return frame.data;
  }

  /** Ends the environment. May be called more than once. */
  close(): void {
    this.#end ??= new OpenEnvError('environment_server_away', 'The episode is closed.');
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ type: 'close' }));
    this.#socket.close();
    // A server that hangs never answers.
    if (this.#socket.readyState !== WebSocket.CLOSED) setTimeout(this.#connection.cut, closingMs).unref();
  }

  async #opened(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#socket.addEventListener('open', () => resolve(), { once: true });
    this.#waiting = Promise.withResolvers();
    const failed = this.#waiting.promise.then((frame) => void this.#frames.unshift(frame));
    await this.#within(this.#options.signal, () => Promise.race([promise, failed]));
  }

  #ask(frame: object, signal: AbortSignal): Promise<Frame> {
    return this.#within(signal, async () => {
      const early = this.#frames.shift();
      // An answer before its question would be taken for the next step's answer, and its reward with it.
      if (early?.type === 'observation') throw unasked(this.#options.url);
      // An error may come first: a full server says so at once.
      if (early) return early;
      if (this.#end) throw this.#end;
      this.#socket.send(JSON.stringify(frame));
      this.#waiting = Promise.withResolvers();
      return this.#waiting.promise;
    });
  }

  #within<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    const { stepTimeoutMs, url } = this.#options;
    const timedOut = () => away(url, `it was silent for ${stepTimeoutMs} ms; raise stepTimeoutMs`);
    return withDeadline({ timeoutMs: stepTimeoutMs, signal, timedOut }, work);
  }

  #receive({ data }: MessageEvent): void {
    const parsed = frameSchema.safeParse(toJson(data));
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      const what = `sent what OpenEnv does not have: ${issue?.path.join('.')}: ${issue?.message}`;
      const message = `the environment server ${this.#options.url} ${what}`;
      this.#fail(new OpenEnvError('environment_server_refused', message));
      return;
    }
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) waiting.resolve(parsed.data);
    else this.#frames.push(parsed.data);
  }

  /** Why the socket did not open; null once it has. */
  #unopened(): OpenEnvError | null {
    const problem = this.#connection.problem();
    const { url } = this.#options;
    if (typeof problem === 'number')
      return new OpenEnvError(
        'environment_server_refused',
        `The environment server ${url} answered the WebSocket /ws with ${problem}`,
      );
    return problem instanceof Error ? away(url, describeThrown(problem), problem) : null;
  }

  #fail(error: OpenEnvError): void {
    this.#end ??= error;
    // A waiting step gets the error; if none waits, the next step does.
    this.#waiting?.promise.catch(() => undefined);
    this.#waiting?.reject(this.#end);
    this.#waiting = undefined;
  }
}

function toJson(data: unknown): unknown {
  try {
    return typeof data === 'string' ? JSON.parse(data) : undefined;
  } catch {
    return undefined;
  }
}

const failed = (url: string, how: string): OpenEnvError =>
  new OpenEnvError('environment_failed', `The environment at ${url} ${how}`);

const unasked = (url: string): OpenEnvError =>
  new OpenEnvError(
    'environment_server_refused',
    `The environment server ${url} sent an observation that nobody asked for.`,
  );

function refused(url: string, { data }: Extract<Frame, { type: 'error' }>): OpenEnvError {
  const { code, message, errors } = data;
  const details = errors === undefined ? '' : ` ${JSON.stringify(errors).slice(0, 500)}`;
  return new OpenEnvError(
    failures.has(code) ? 'environment_failed' : 'environment_server_refused',
    `the environment at ${url} answered ${code}: ${message.slice(0, 500)}${details}`,
  );
}
