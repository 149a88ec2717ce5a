import { performance } from 'node:perf_hooks';
import { z } from 'zod';
import type { Page } from '../../contract/index.ts';
import type { Answer, OpenAnswer } from '../call.ts';
import { isRequestError, RequestError } from '../errors.ts';
import { type FetchedPage, fetchedBy, nextCursor, parseAnswer, parseJson, parseValue } from '../parse.ts';
import {
  maxIdLength,
  type ReportedTrainingEvent,
  reportedEventSchema,
  reportedPageSchema,
} from '../reported.ts';
import { path, type Requester } from '../requester.ts';
import { pause, retryDelayMs } from '../retry.ts';
import { readEventStream } from '../sse.ts';

/** The newest ids of an unbounded list. */
export class RecentIds {
  readonly #minRemembered: number;
  #newer = new Set<string>();
  #older = new Set<string>();

  /** @param minRemembered Minimum number of ids that are remembered; at most twice as many are. */
  constructor(minRemembered: number) {
    this.#minRemembered = minRemembered;
  }

  get size(): number {
    return this.#newer.size + this.#older.size;
  }

  /** Adds an id. Returns whether it is new. */
  add(id: string): boolean {
    if (this.#newer.has(id) || this.#older.has(id)) return false;
    if (this.#newer.size >= this.#minRemembered) {
      this.#older = this.#newer;
      this.#newer = new Set();
    }
    this.#newer.add(id);
    return true;
  }
}

const anyEventSchema = z.looseObject({ id: z.string().max(maxIdLength), type: z.string() });
const anyEventPageSchema = reportedPageSchema(anyEventSchema);
const knownTypes = new Set([
  'training_started',
  'gradient_step',
  'training_waiting',
  'training_ended',
  'training_failed',
]);

/** A page of events. Events of unknown types are dropped, because a service may add types. */
export function parseEventPage(answer: Answer): Page<ReportedTrainingEvent> {
  const page = parseAnswer(anyEventPageSchema, answer);
  return { ...page, data: page.data.flatMap((value) => known(value, answer.facts)) };
}

const isLast = ({ type }: ReportedTrainingEvent): boolean =>
  type === 'training_ended' || type === 'training_failed';

/** The event, in an array that is empty for an unknown type. */
function known(value: z.output<typeof anyEventSchema>, facts: Answer['facts']): ReportedTrainingEvent[] {
  return knownTypes.has(value.type) ? [parseValue(reportedEventSchema, value, facts)] : [];
}

export interface FollowOptions {
  /** Stops following, which then rejects with the signal's reason. The job continues. */
  signal?: AbortSignal | undefined;
  /** Pause between polls in milliseconds, if the service has no event stream. Default 1000. */
  pollIntervalMs?: number | undefined;
  /** Id of the last event already seen. Default: start from the first event. */
  after?: string | undefined;
  /** Silence in milliseconds after which the stream is reopened. Default 60000. */
  idleTimeoutMs?: number | undefined;
}

interface Following {
  requester: Requester;
  path: string;
  options: FollowOptions;
  /** Id of the last event read. */
  cursor: string | undefined;
  /** Ids of events already yielded, because a service may repeat the last ones after a cut. */
  seen: RecentIds;
}

/** Number of events that are recognized when a service repeats them. */
const rememberedEvents = 50_000;

/** A connection that lasted this long does not count as a failure when it is cut. */
const steadyMs = 5_000;

/** See `TrainingJobs.follow`. */
export async function* followEvents(
  requester: Requester,
  jobId: string,
  options: FollowOptions,
): AsyncGenerator<ReportedTrainingEvent, undefined> {
  const target = path`/preview/training-jobs/${jobId}/events`;
  const following: Following = {
    requester,
    path: target,
    options,
    cursor: options.after,
    seen: new RecentIds(rememberedEvents),
  };
  const { retries, backoffMs } = requester.transport.retry;
  let cuts = 0;
  for (;;) {
    const answer = await openEvents(following);
    const opened = performance.now();
    let progressed = false;
    try {
      const isStream = answer.contentType.startsWith('text/event-stream');
      for await (const event of isStream ? streamed(following, answer) : polled(following, answer)) {
        progressed = true;
        yield event;
        if (isLast(event)) return;
      }
    } catch (error) {
      // The stream was cut, silent or garbled.
      if (!isRequestError(error, 'timed_out', 'bad_response', 'connection_failed')) throw error;
      // A stream that had events or lasted a while is reopened without limit, because a proxy may cut silent
      // connections. Only cuts of other streams count as failures.
      cuts = progressed || performance.now() - opened > steadyMs ? 0 : cuts + 1;
      if (cuts > retries) throw error;
    }
    await pause(retryDelayMs(cuts, backoffMs, null, Math.random()), options.signal);
  }
}

function openEvents({ requester, path: target, options, cursor }: Following): Promise<OpenAnswer> {
  return requester.transport.open({
    method: 'GET',
    path: target,
    query: { after: cursor, limit: 100 },
    headers: {
      accept: 'text/event-stream, application/json;q=0.5',
      ...(cursor !== undefined && { 'last-event-id': cursor }),
    },
    repeat: 'harmless',
    signal: options.signal,
    timeoutMs: options.idleTimeoutMs ?? 60_000,
    idle: true,
    timeoutOption: 'idleTimeoutMs',
  });
}

/** The events of one connection. @throws RequestError of code `connection_failed` if it ends before the job does. */
async function* streamed(following: Following, answer: OpenAnswer): AsyncGenerator<ReportedTrainingEvent> {
  const { facts, body } = answer;
  const timeoutMs = following.requester.readTimeoutMs;
  const deadline = { timeoutMs, timeoutOption: 'readTimeoutMs' } as const;
  for await (const message of readEventStream(answer, body, deadline)) {
    const value = parseJson({ facts, text: message.data }, 'an event is not JSON');
    yield* unseen(following, known(parseValue(anyEventSchema, value, facts), facts));
  }
  const detail = 'the event stream ended before the job did';
  throw new RequestError('connection_failed', { ...facts, detail });
}

/** The events page by page, for a service without an event stream. */
async function* polled(following: Following, first: OpenAnswer): AsyncGenerator<ReportedTrainingEvent> {
  const { requester, options } = following;
  const parse = fetchedBy(parseEventPage);
  let fetched: FetchedPage<ReportedTrainingEvent> = parse({
    facts: first.facts,
    text: await first.text(),
  });
  for (;;) {
    const { page } = fetched;
    const before = following.cursor;
    yield* unseen(following, page.data);
    if (page.has_more) following.cursor = nextCursor(fetched, before);
    else {
      if (page.last_id !== '') following.cursor = page.last_id;
      await pause(options.pollIntervalMs ?? 1000, options.signal);
    }
    const query = { after: following.cursor, limit: 100 };
    fetched = await requester.read(following.path, { signal: options.signal }, parse, { query });
  }
}

function* unseen(following: Following, events: ReportedTrainingEvent[]): Generator<ReportedTrainingEvent> {
  for (const event of events) {
    following.cursor = event.id;
    if (following.seen.add(event.id)) yield event;
  }
}
