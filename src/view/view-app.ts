import { type Context, Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import { z } from 'zod';
import { textOf } from '../contract/index.ts';
import { messageOf } from '../util/error.ts';
import { isLocalHost, isSameKey, newKey } from '../util/server-access.ts';
import type { ServiceOpening } from './api.ts';
import type { Changes } from './changes.ts';
import { openingParts } from './opening.ts';
import type { PageFile } from './page-files.ts';
import type { RunViews } from './run-views.ts';
import type { ServiceViews } from './service-views.ts';
import { notFound, ViewError } from './view-error.ts';

interface ViewApp {
  views: RunViews;
  changes: Changes;
  service: ServiceViews | null;
  page: readonly PageFile[];
  /** Gives access to everything. */
  secret: string;
  /** Codes that open the page once, in place of the secret. */
  codes: OneTimeCodes;
}

/** Codes for addresses that others may see, such as the arguments of a browser that is started. */
export class OneTimeCodes {
  readonly #codes = new Map<string, NodeJS.Timeout>();

  /** A code that can be used once, within a minute. */
  make(): string {
    const code = newKey();
    this.#codes.set(code, setTimeout(() => this.#codes.delete(code), 60_000).unref());
    return code;
  }

  /** Whether it is a code that was not used before. */
  use(code: string): boolean {
    clearTimeout(this.#codes.get(code));
    return this.#codes.delete(code);
  }
}

const policy = [
  "default-src 'self'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const headers = {
  'Content-Security-Policy': policy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
};

const text = z.string().max(1_000_000);
const chatMessage = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('user'), content: text }),
  z.strictObject({
    role: z.literal('assistant'),
    content: text.nullable(),
    tool_calls: z
      .array(
        z.object({
          id: text,
          type: z.literal('function'),
          function: z.object({ name: text, arguments: text }),
        }),
      )
      .max(1000)
      .optional(),
  }),
  z.strictObject({ role: z.literal('tool'), tool_call_id: text, content: text }),
]);

const questionSchema = z.strictObject({
  model: z.string().min(1).max(1000),
  openingOf: z.string().min(1).max(1000).nullable(),
  messages: z.array(chatMessage).min(1).max(1000),
  temperature: z.number().min(0).max(10),
  maxTokens: z.number().int().min(1).max(1_000_000),
});

/**
 * The page and its API. The first visit has the secret in its address (`/?key=...`) and gets it as a cookie; the page then
 * removes it from the address. Only hosts of this machine are answered, so that no name of another one leads here.
 */
export function createViewApp({ views, changes, service, page, secret, codes }: ViewApp): Hono {
  const app = new Hono();
  app.use(async (context, next) => {
    for (const [name, value] of Object.entries(headers)) context.header(name, value);
    if (!isLocalHost(context.req.header('host')))
      return context.text('This page answers only under 127.0.0.1 and localhost.', 421);
    if (context.req.path === '/open' && codes.use(context.req.query('code') ?? ''))
      return context.body(null, 303, { Location: '/', 'Set-Cookie': cookieOf(context, secret) });
    if (!isKnown(context, secret))
      return context.text('Open the address that `martingale view` has printed, with its key.', 403);
    await next();
  });
  app.onError((error, context) => {
    const status = error instanceof ViewError ? statuses[error.code] : 500;
    const message = messageOf(error);
    return context.json({ error: { message } }, status, headers);
  });
  app.notFound(() => {
    throw notFound('There is no such address.');
  });

  app.get('/', (context) => sendFile(page, 'index.html', { 'Set-Cookie': cookieOf(context, secret) }));
  app.get('/api/events', (context) =>
    streamSSE(context, async (stream) => {
      const stop = changes.follow((change) => {
        void stream.writeSSE({ event: 'change', data: JSON.stringify(change) });
      });
      stream.onAbort(stop);
      await stream.writeSSE({ event: 'ready', data: '{}' });
      // Ends with the connection.
      await new Promise<void>((resolve) => stream.onAbort(resolve));
    }),
  );
  app.get('/api/*', async (context) => {
    const path = context.req.path.slice('/api/'.length);
    if (!path.endsWith('.json')) throw notFound('There is no such address.');
    return context.json(await answer({ views, service }, path.slice(0, -'.json'.length)));
  });
  app.post('/api/service/chat', async (context) => {
    if (!isOwnPage(context)) throw new ViewError('bad_request', 'A chat is asked from the page alone.');
    const parsed = questionSchema.safeParse(await context.req.json().catch(() => null));
    if (!parsed.success) throw new ViewError('bad_request', z.prettifyError(parsed.error));
    const { openingOf: model } = parsed.data;
    const opening = model === null ? null : await views.opening(model);
    return context.json(await withService(service).ask(parsed.data, opening));
  });
  app.get('/:name', (context) => sendFile(page, context.req.param('name')));
  return app;
}

const statuses = { not_found: 404, bad_request: 400, service_failed: 502 } as const;

/** The answer of a GET, by its path without `.json`. */
async function answer({ views, service }: Pick<ViewApp, 'views' | 'service'>, path: string): Promise<object> {
  const [first = '', ...rest] = path.split('/').map(decoded);
  if (first === 'service' && rest.length === 0) return withService(service).detail();
  if (first === 'service' && rest[0] === 'openings' && rest.length === 2)
    return openingFor(views, rest[1] ?? '');
  if (first === 'evaluations' && rest.length === 0) return views.evaluations.list();
  if (first === 'comparisons' && rest.length === 1)
    return views.evaluations.compare((rest[0] ?? '').split(','));
  if (first === 'flips' && rest.length === 4) {
    const [runA = '', whichA = '', runB = '', whichB = ''] = rest;
    return views.flips({ id: runA, which: whichA }, { id: runB, which: whichB });
  }
  if (first !== 'runs') throw notFound('There is no such address.');
  const [run, steps, which, part, group, rollouts, rollout] = rest;
  if (run === undefined) return { ...(await views.list()), service: service?.address ?? null };
  if (steps === undefined) return views.run(run);
  if (steps !== 'steps' || which === undefined) throw notFound('There is no such address.');
  if (part === undefined) return views.step(run, which);
  if (part === 'timeline' && group === undefined) return views.timeline(run, which);
  if (part !== 'groups' || group === undefined) throw notFound('There is no such address.');
  if (rollouts === undefined) return views.group(run, which, wholeNumber(group));
  if (rollouts !== 'rollouts' || rollout === undefined || rest.length > 7)
    throw notFound('There is no such address.');
  return views.rollout(run, which, wholeNumber(group), wholeNumber(rollout));
}

async function openingFor(views: RunViews, model: string): Promise<ServiceOpening> {
  const opening = await views.opening(model);
  if (!opening) return { opening: null };
  const { run, title, messages, example } = opening;
  const instructions = messages.map(({ content }) => textOf(content));
  return { opening: { run, title, instructions, parts: openingParts(opening), example } };
}

function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new ViewError('bad_request', `"${text}" is not a number of a group or rollout.`);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new ViewError('bad_request', 'The address cannot be decoded.');
  }
}

function withService(service: ServiceViews | null): ServiceViews {
  if (service) return service;
  throw notFound('No service is shown. Start `martingale view` with --base-url.');
}

/** Whether a browser says that this page asks, and not another site. */
const isOwnPage = ({ req }: Context): boolean =>
  req.header('sec-fetch-site') === 'same-origin' || req.header('origin') === `http://${req.header('host')}`;

/** Cookies are shared by all ports of a host, so the name has the port. */
const cookieName = (context: Context): string =>
  `martingale-view-${new URL(`http://${context.req.header('host')}`).port || '80'}`;

const cookieOf = (context: Context, secret: string): string =>
  `${cookieName(context)}=${secret}; HttpOnly; SameSite=Strict; Path=/`;

function isKnown(context: Context, secret: string): boolean {
  const cookies = (context.req.header('cookie') ?? '').split(/; */);
  const prefix = `${cookieName(context)}=`;
  const told = cookies.flatMap((cookie) => (cookie.startsWith(prefix) ? cookie.slice(prefix.length) : []));
  const key = context.req.path === '/' ? context.req.query('key') : undefined;
  return [...told, key ?? ''].some((text) => isSameKey(text, secret));
}

function sendFile(page: readonly PageFile[], name: string, more: Record<string, string> = {}): Response {
  const file = page.find((one) => one.name === name);
  if (!file) throw notFound('There is no such address.');
  return new Response(Buffer.from(file.body), {
    headers: { ...headers, ...more, 'Content-Type': file.type },
  });
}
