import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import type { ServiceError } from '../errors.ts';
import type { ServiceLog } from '../log.ts';
import { requestIdHeader } from '../request-headers.ts';
import { Lingering } from './lingering.ts';
import { StalledReaders } from './stalled-readers.ts';
import { Wire } from './wire.ts';

/** Of a request of no more than this, the rest is waited for after its answer, and the connection lives on. */
const shortBytes = 65_536;

/** How long, and on how many connections, the rest of other requests is thrown away. */
const lingeringLimits = { limitMs: 30_000, connections: 1024 };

/** So many times as many bytes as a body may have are thrown away of one that is refused. */
const refusedBodies = 4;

/** Longest time before the deadline at which what is in progress is given its last answer. */
const lastAnswersMs = 1000;

export interface AnsweringOptions {
  fetch: (request: Request, env: { wire: Wire }) => Response | Promise<Response>;
  /** How long a client may send nothing of a body that is waited for, or take nothing of its answer. */
  stallTimeoutMs: number;
  /** Most bytes that a body may have. */
  largestBody: number;
  log: ServiceLog;
}

/** What happens on a connection between a request and the end of its answer. */
export class Answering {
  readonly #options: AnsweringOptions;
  readonly #wires = new Set<Wire>();
  #reason: ServiceError | null = null;
  readonly #lingering: Lingering;
  readonly #readers: StalledReaders;
  readonly #requestIds = new WeakMap<ServerResponse, string>();
  #isClosing = false;
  #deadline: NodeJS.Timeout | undefined;

  constructor(options: AnsweringOptions) {
    const { stallTimeoutMs, largestBody, log } = options;
    this.#options = options;
    this.#lingering = new Lingering({ ...lingeringLimits, bytes: refusedBodies * largestBody });
    this.#readers = new StalledReaders({
      limitMs: stallTimeoutMs,
      onCut: (answer) => {
        const request = this.#requestIds.get(answer) ?? null;
        log({ level: 'info', event: 'answer_not_taken', request, stallTimeoutMs });
      },
    });
  }

  /** Answers the requests of a server. `host` is that of those which name none. */
  listener(host: string): RequestListener {
    const answer = getRequestListener(
      (request, { incoming, outgoing }) => {
        if (incoming instanceof IncomingMessage && outgoing instanceof ServerResponse)
          return this.#answer(request, incoming, outgoing);
        throw new TypeError('the request did not come over HTTP/1.1');
      },
      // Its own cleaning up would cut connections after half a second.
      { hostname: host, autoCleanupIncoming: false },
    );
    return (incoming, outgoing) => {
      this.#readers.watch(outgoing);
      void answer(incoming, outgoing);
    };
  }

  /** From now on an answer is the last of its connection; shortly before the deadline there is no other than `reason`. */
  close({ withinMs, reason }: { withinMs: number; reason: ServiceError }): void {
    this.#isClosing = true;
    this.#lingering.end();
    const restMs = Math.min(lastAnswersMs, withinMs / 2);
    this.#deadline = setTimeout(() => {
      this.#reason = reason;
      for (const wire of this.#wires) wire.end(reason);
    }, withinMs - restMs);
  }

  /** No connection is left. */
  closed(): void {
    clearTimeout(this.#deadline);
    this.#readers.end();
  }

  async #answer(request: Request, incoming: IncomingMessage, outgoing: ServerResponse): Promise<Response> {
    const { fetch, stallTimeoutMs } = this.#options;
    const wire = new Wire(incoming, outgoing, { stallTimeoutMs });
    this.#wires.add(wire);
    outgoing.once('close', () => this.#wires.delete(wire));
    if (this.#reason) wire.end(this.#reason);
    const response = await fetch(request, { wire });
    this.#requestIds.set(outgoing, response.headers.get(requestIdHeader) ?? '');
    const isOpen = !incoming.complete && !incoming.destroyed;
    const isLast = this.#isClosing || (isOpen && (response.status === 408 || !isShort(incoming)));
    if (isLast) response.headers.set('connection', 'close');
    if (isOpen && response.headers.has('connection')) this.#lingering.begin(incoming);
    return response;
  }
}

/** Whether what is missing of a request, and that nobody has begun to read, is not worth a connection. */
function isShort({ headers, readableDidRead }: IncomingMessage): boolean {
  return !readableDidRead && Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) <= shortBytes;
}
