import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import { pageQuerySchema, type TrainingEvent } from '../../contract/index.ts';
import { accessOf, tenantOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { operations } from '../openapi/operations.ts';
import { serverSentEvents } from '../server-sent-events.ts';
import { validate } from '../validation.ts';
import { type Register, toPage } from './route.ts';
import { findJob } from './training-jobs.ts';

/** After this much silence a comment is sent, so that neither end takes the connection for dead. */
const idleMs = 15_000;

export function eventRoutes(on: Register, service: ServiceContext): void {
  const { store, events, closing, log } = service;

  on(operations.listEvents, async (context) => {
    const job = await findJob(service, accessOf(context), context.req.param('job_id'));
    const query = validate(pageQuerySchema, context.req.query(), 'query');
    if (!wantsStream(context))
      return context.json(toPage(await store.events(job.id, { ...query, order: 'asc' }), (event) => event));
    const after = context.req.header('last-event-id') || query.after;
    // Refuses an unknown cursor while the status can still say so.
    await store.events(job.id, { after, limit: 1, order: 'asc' });
    const slot = service.admission.eventStreams.take(tenantOf(context));
    return serverSentEvents(
      context,
      async function* (gone) {
        const signal = AbortSignal.any([gone, closing]);
        for await (const happened of events.follow(job.id, after, { signal, idleMs }))
          yield happened.length === 0 ? ': nothing yet\n\n' : happened.map(toFrame).join('');
      },
      { log, ended: slot.release },
    );
  });
}

/** Whether the client prefers an event stream to JSON. */
function wantsStream(context: Context): boolean {
  const [json, stream] = ['application/json', 'text/event-stream'];
  const chosen = accepts(context, {
    header: 'Accept',
    supports: [json, stream],
    default: json,
    match: (given, { supports }) =>
      given
        .filter(({ type, q }) => q > 0 && supports.includes(type))
        .reduce((best, next) => (next.q > best.q ? next : best), { type: json, q: 0 }).type,
  });
  return chosen === stream;
}

const toFrame = (event: TrainingEvent) => `id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`;
