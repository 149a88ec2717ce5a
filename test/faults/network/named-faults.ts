import {
  afterwards,
  cutBehind,
  cutReply,
  cutReplyHead,
  cutRequest,
  delay,
  drip,
  endlessDrip,
  instead,
  loseReply,
  loseReplyEarly,
  mute,
  outOfOrder,
  reply,
  replyTwice,
  reset,
  silence,
  truncate,
  twice,
  twiceAtOnce,
} from './faults.ts';
import type { Operation } from './operations.ts';
import { type Fault, type FaultyProxy, pass } from './proxy.ts';

/** The expected outcome: `succeeds`, or the code of the error. */
type Outcome = (operation: Operation) => string;

export interface NamedFault {
  name: string;
  fault: Fault;
  /** Runs in place of, or before, a fault of a request. Returns a function that undoes it. */
  begin?: (proxy: FaultyProxy, times: number) => Promise<() => Promise<void>>;
  /** Outcome if only the first request meets the fault. */
  once: Outcome;
  /** Outcome if every request meets it; absent if that adds nothing. */
  always?: Outcome;
  /** Operations that can meet it. */
  applies?: (operation: Operation) => boolean;
  /** Deadline of an attempt, for faults of silence. */
  timeoutMs?: number;
  /** Whether another call runs at the same time. */
  withAnother?: boolean;
  /** Maximum number of times that the service may sample for one chat completion. */
  mostSamples?: number;
}

const succeeds: Outcome = () => 'succeeds';
const fails =
  (code: string): Outcome =>
  () =>
    code;
/** Retried if a retry is harmless; an error at once if the service may have sampled. */
const unlessSampling =
  (code: string): Outcome =>
  ({ kind }) =>
    kind === 'sampling' ? code : 'succeeds';
/** Succeeds for answers that the interface does not specify: they may have any shape, or be empty. */
const unlessOpen =
  (code: string): Outcome =>
  ({ openBody }) =>
    openBody ? 'succeeds' : code;
/** Succeeds for the health check, whose answer is ignored. */
const unlessHealth =
  (code: string): Outcome =>
  ({ name }) =>
    name === 'health' ? 'succeeds' : code;

const page = '<!doctype html><title>Bad gateway</title><h1>502</h1>';
const json = { 'content-type': 'application/json' };
const html = { 'content-type': 'text/html' };
const tooMany = (headers: Record<string, string>) =>
  instead(reply('429 Too Many Requests', { ...json, ...headers }, '{"detail":"slow down"}'));

const connections: NamedFault[] = [
  {
    name: 'connection refused',
    fault: pass,
    begin: async (proxy, times) => {
      await proxy.shut();
      if (times > 1) return () => proxy.listen();
      const back = proxy.listen();
      return () => back;
    },
    once: succeeds,
    always: fails('connection_failed'),
  },
  {
    name: 'connection reset when it is made',
    fault: pass,
    begin: async (proxy, times) => {
      proxy.resetConnections = times;
      return async () => {
        proxy.resetConnections = 0;
      };
    },
    once: unlessSampling('connection_failed'),
    always: fails('connection_failed'),
  },
  {
    name: 'connection reset when the request comes',
    fault: reset,
    once: unlessSampling('connection_failed'),
    always: fails('connection_failed'),
  },
  {
    name: 'request cut in the middle',
    fault: cutRequest,
    once: unlessSampling('connection_failed'),
    always: fails('connection_failed'),
    mostSamples: 0,
  },
  {
    name: 'reply lost',
    fault: loseReply,
    once: unlessSampling('connection_failed'),
  },
  {
    name: 'reply lost while the service is at work',
    fault: loseReplyEarly,
    once: unlessSampling('connection_failed'),
  },
  {
    name: 'reply cut in its head',
    fault: cutReplyHead,
    once: unlessSampling('connection_failed'),
  },
  {
    name: 'reply cut in its body',
    fault: cutReply,
    once: unlessSampling('connection_failed'),
    always: fails('connection_failed'),
  },
  {
    name: 'stream cut behind its first part',
    fault: cutBehind('\n\n'),
    applies: ({ name }) => ['follow', 'chat stream'].includes(name),
    once: unlessSampling('connection_failed'),
  },
];

const silences: NamedFault[] = [
  {
    name: 'request swallowed in silence',
    fault: silence,
    timeoutMs: 1000,
    once: unlessSampling('timed_out'),
    mostSamples: 0,
  },
  {
    name: 'reply kept back for ever',
    fault: mute,
    timeoutMs: 1000,
    once: unlessSampling('timed_out'),
    always: fails('timed_out'),
  },
  { name: 'reply delayed', fault: delay(30), once: succeeds },
  {
    name: 'reply delayed by a minute',
    fault: delay(60_000),
    timeoutMs: 1000,
    once: unlessSampling('timed_out'),
  },
  { name: 'reply dripping, a byte at a time', fault: drip, once: succeeds },
  {
    name: 'reply dripping for ever',
    fault: endlessDrip(20),
    timeoutMs: 1000,
    // For a download, a byte now and then is progress; it ends at its announced length.
    applies: ({ name }) => name !== 'download',
    once: unlessSampling('timed_out'),
  },
  { name: 'replies out of order', fault: outOfOrder, withAnother: true, once: succeeds },
  {
    name: 'request twice',
    fault: twice,
    mostSamples: 2,
    once: ({ name }) => (name === 'delete model' ? 'not_found' : 'succeeds'),
  },
  {
    name: 'request twice at once',
    fault: twiceAtOnce,
    mostSamples: 2,
    applies: ({ name }) => name !== 'delete model',
    once: succeeds,
  },
  { name: 'reply twice', fault: replyTwice, once: succeeds },
];

const statuses: NamedFault[] = [
  { name: '429', fault: tooMany({}), once: succeeds, always: fails('rate_limited') },
  { name: '429 with seconds', fault: tooMany({ 'retry-after': '0' }), once: succeeds },
  {
    name: '429 with a date',
    fault: tooMany({ 'retry-after': 'Sat, 21 Nov 2026 00:00:00 GMT' }),
    once: succeeds,
  },
  {
    name: '429 with a wait of an hour',
    fault: tooMany({ 'retry-after': '3600' }),
    once: fails('rate_limited'),
  },
  {
    name: '500',
    fault: instead(reply('500 Internal Server Error', json, '{"detail":"broken"}')),
    once: unlessSampling('service_failed'),
    always: fails('service_failed'),
  },
  {
    name: '502 with a page, the service untouched',
    fault: instead(reply('502 Bad Gateway', html, page)),
    once: unlessSampling('service_failed'),
  },
  {
    name: '502 with a page, the service having acted',
    fault: afterwards(reply('502 Bad Gateway', html, page)),
    once: unlessSampling('service_failed'),
  },
  {
    name: '503',
    fault: instead(reply('503 Service Unavailable', json, '{"detail":"busy"}')),
    once: succeeds,
    always: fails('service_failed'),
  },
  {
    name: 'redirect',
    fault: instead(reply('307 Temporary Redirect', { location: 'http://127.0.0.1:9/elsewhere' }, '')),
    once: fails('request_refused'),
  },
];

const isDownload = ({ name }: Operation) => name === 'download';

const bodies: NamedFault[] = [
  {
    name: 'JSON that is none',
    fault: afterwards(reply('200 OK', json, '{"id": oops')),
    once: (operation) => (operation.openBody ? 'succeeds' : unlessSampling('bad_response')(operation)),
    always: unlessHealth('bad_response'),
  },
  {
    name: 'JSON cut short, with the right status',
    fault: truncate,
    // A download has no structure that would reveal it.
    applies: (operation) => !isDownload(operation),
    once: (operation) => {
      if (operation.openBody) return 'succeeds';
      // The event stream stops in the middle.
      const sampling = operation.name === 'chat stream' ? 'connection_failed' : 'bad_response';
      return unlessSampling(sampling)(operation);
    },
  },
  {
    name: 'JSON of another shape',
    fault: afterwards(reply('200 OK', json, '{"hello":["world"]}')),
    once: (operation) => (operation.openBody ? 'succeeds' : unlessSampling('bad_response')(operation)),
    always: unlessOpen('bad_response'),
  },
  {
    name: 'an empty 200',
    fault: afterwards(reply('200 OK', json, '')),
    once: (operation) => (operation.openBody ? 'succeeds' : unlessSampling('bad_response')(operation)),
    always: unlessOpen('bad_response'),
  },
  {
    name: 'a page with status 200',
    fault: instead(reply('200 OK', html, '<h1>Sign in to the network</h1>')),
    // Where no service has answered yet, a page says that the address is wrong: the call is not repeated. These two have
    // answers of the service before their own.
    once: ({ name, kind }) =>
      kind !== 'sampling' && ['create SFT job', 'follow'].includes(name) ? 'succeeds' : 'bad_response',
    always: fails('bad_response'),
  },
  {
    name: 'bytes that are no HTTP',
    fault: afterwards(Buffer.from('\x00\x01SSH-2.0-something\r\n\r\n', 'latin1')),
    once: unlessSampling('connection_failed'),
    always: fails('connection_failed'),
  },
  {
    name: 'a header of 100 kB',
    fault: afterwards(reply('200 OK', { ...json, 'x-long': 'x'.repeat(100_000) }, '{}')),
    once: unlessSampling('connection_failed'),
    always: fails('connection_failed'),
  },
];

export const namedFaults: readonly NamedFault[] = [...connections, ...silences, ...statuses, ...bodies];
