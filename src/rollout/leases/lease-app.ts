import { setTimeout as sleep } from 'node:timers/promises';
import { serialize } from 'node:v8';
import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import type { z } from 'zod';
import { MartingaleError } from '../../contract/index.ts';
import { bearerKeyOf, foreignRequest, isSameKey } from '../../util/server-access.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { martingaleVersion } from '../../util/version.ts';
import { toFailure } from '../rollout.ts';
import { differingFiles } from './environment-version.ts';
import type { LeaseHub } from './lease-hub.ts';
import { cloneFormat, maxBodyBytes, readMessage } from './mailbox.ts';
import {
  batchSchema,
  type JoinAnswer,
  type JoinRequest,
  joinRequestSchema,
  programHeader,
  receivedSchema,
} from './protocol.ts';
import type { RemoteWorker } from './remote-worker.ts';
import type { WorkerEvent } from './worker-event.ts';

interface LeaseAppOptions {
  hub: LeaseHub;
  apiKey: string;
  /** Whether it is reached from this machine only. */
  isLocal: boolean;
  leaseMs: number;
  /** Name and files of the environment, which workers must have too. */
  environment: string;
  files: Readonly<Record<string, string>>;
  onEvent: (event: WorkerEvent) => void;
}

const wrongKey =
  'the key is missing or not the `apiKey` of the program. Pass it with --key or MARTINGALE_WORKER_KEY';

/** The HTTP server for workers: they join, poll for messages and send theirs. */
export function createLeaseApp(options: LeaseAppOptions): Hono {
  const { hub, apiKey, isLocal, leaseMs } = options;
  const pollMs = Math.ceil(leaseMs / 3);
  const app = new Hono();
  let toldOfKeyAt = Number.NEGATIVE_INFINITY;
  /** Refused workers retry; report it at most once a minute. */
  const tellOfKey = () => {
    if (performance.now() - toldOfKeyAt < 60_000) return;
    toldOfKeyAt = performance.now();
    const message = 'A worker without the key of this program was refused.';
    options.onEvent({ type: 'refused', worker: '', message });
  };
  const refuse = (context: Context, status: 400 | 401 | 403 | 409 | 413, code: string, message: string) =>
    context.json({ error: { code, message } }, status);
  app.onError((error, context) => {
    const { code, message } = toFailure(error);
    return refuse(context, 400, code, message);
  });
  app.use(
    bodyLimit({
      maxSize: maxBodyBytes,
      onError: (context) =>
        refuse(context, 413, 'body_too_large', `A body has more than ${maxBodyBytes} bytes.`),
    }),
  );
  app.use(async (context, next) => {
    context.header(programHeader, martingaleVersion);
    await next();
  });
  app.use(async (context, next) => {
    const { host, origin, authorization } = context.req.header();
    const foreign = foreignRequest({ host, origin }, { isLocal });
    if (foreign !== null) return refuse(context, 403, 'foreign_request', foreign);
    if (!isSameKey(bearerKeyOf(authorization), apiKey)) {
      tellOfKey();
      return refuse(context, 401, 'invalid_key', wrongKey);
    }
    await next();
  });
  app.post('/workers', async (context) => {
    const request = await readJson(context, joinRequestSchema);
    const unreadable = hub.whyRefused(request);
    const refusal =
      unreadable === undefined
        ? whyRefused(request, options)
        : { code: 'worker_refused', message: unreadable };
    if (refusal) {
      const message = `Worker ${request.name} was refused: ${refusal.message}`;
      options.onEvent({ type: 'refused', worker: request.name, message });
      return refuse(context, 409, refusal.code, refusal.message);
    }
    const { id: worker } = hub.join(request);
    return context.json({ worker, leaseMs, pollMs } satisfies JoinAnswer);
  });
  const workerOf = (context: Context): RemoteWorker => {
    const worker = hub.worker(context.req.param('id') ?? '');
    if (!worker) throw new MartingaleError('worker_unknown', 'The worker has left, or was given up.');
    worker.heardAt = performance.now();
    return worker;
  };
  app.post('/workers/:id/poll', async (context) => {
    const { received } = await readJson(context, receivedSchema);
    const worker = workerOf(context);
    worker.outbox.acknowledge(received);
    await untilMessages(worker, pollMs, context.req.raw.signal);
    return context.body(serialize(worker.outbox.batch()));
  });
  app.post('/workers/:id/messages', async (context) => {
    const worker = workerOf(context);
    const batch = batchSchema.parse(readMessage(Buffer.from(await context.req.arrayBuffer())));
    const slices = new TimeSlices();
    for (const message of worker.inbox.open(batch)) {
      hub.receive(worker, readIfPossible(message));
      if (slices.over) await slices.pause();
    }
    return context.json({ received: worker.inbox.received });
  });
  return app;
}

/** Undefined for bytes that are no message: the others still count. */
function readIfPossible(message: Uint8Array): unknown {
  try {
    return readMessage(message);
  } catch {
    return undefined;
  }
}

/** Waits for a message to the worker, its next poll, or the end of this one. */
async function untilMessages(worker: RemoteWorker, pollMs: number, signal: AbortSignal): Promise<void> {
  worker.endPoll();
  const waiting = new AbortController();
  worker.endPoll = () => waiting.abort();
  signal.addEventListener('abort', worker.endPoll, { once: true });
  const pause = sleep(pollMs, undefined, { signal: waiting.signal, ref: false }).catch(() => undefined);
  await Promise.race([worker.outbox.more, pause]);
  waiting.abort();
}

async function readJson<Schema extends z.ZodType>(
  context: Context,
  schema: Schema,
): Promise<z.output<Schema>> {
  // Pages of other origins cannot send this type unasked.
  if (!context.req.header('content-type')?.startsWith('application/json'))
    throw new MartingaleError('bad_request', 'Send JSON, with `Content-Type: application/json`.');
  return schema.parse(await context.req.json());
}

function whyRefused(
  request: JoinRequest,
  { environment, files }: LeaseAppOptions,
): { code: string; message: string } | undefined {
  const ours = { martingale: martingaleVersion, cloneFormat: cloneFormat() };
  if (request.martingale !== ours.martingale)
    return {
      code: 'version_mismatch',
      message: `it runs martingale ${request.martingale}, and the program ${ours.martingale}. Install the same version on both.`,
    };
  if (request.cloneFormat !== ours.cloneFormat)
    return {
      code: 'version_mismatch',
      message:
        'its Node and the Node of the program encode data differently. Run the same major version of Node on both.',
    };
  const differing = differingFiles(files, request.files);
  if (differing.length > 0) {
    const shown = differing.slice(0, 5).join(', ') + (differing.length > 5 ? ', ...' : '');
    return {
      code: 'environment_mismatch',
      message: `its environment is not the one of the program: ${shown} ${differing.length === 1 ? 'differs' : 'differ'}. Bring its files up to date.`,
    };
  }
  if (request.environment !== environment)
    return {
      code: 'environment_mismatch',
      message: `it has loaded the environment "${request.environment}", and the program runs "${environment}". Name the export with --export.`,
    };
  return undefined;
}
