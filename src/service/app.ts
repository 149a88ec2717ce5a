import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import { requireKey } from './access.ts';
import { BusyError } from './admission/tenant-slots.ts';
import { acceptedEncoding } from './bodies/body-pieces.ts';
import type { ServiceContext } from './context.ts';
import { isMessagesPath, noSuchPath } from './errors.ts';
import { errorFor, isOpenAiPath, toErrorBody } from './faults.ts';
import { ClientLeftError, exchangeOf } from './http/exchange.ts';
import { openApiDocument } from './openapi/document.ts';
import { operations } from './openapi/operations.ts';
import { chatRoutes } from './routes/chat.ts';
import { checkpointRoutes } from './routes/checkpoints.ts';
import { forkRoutes } from './routes/fork.ts';
import { groupRoutes } from './routes/groups.ts';
import { healthRoutes } from './routes/health.ts';
import { inferenceModelRoutes } from './routes/inference-models.ts';
import { logRoutes } from './routes/log.ts';
import { modelRoutes } from './routes/models.ts';
import { isKnownPath, refuseOtherMethods, registrar } from './routes/route.ts';
import { trainingJobRoutes } from './routes/training-jobs.ts';
import { projectOf, requestIdHeader, requestIdPattern, traceRequests } from './telemetry.ts';
import { tickTime } from './ticks.ts';

/** Status in the log when the client disconnected before the answer. nginx uses the same number. */
const clientLeftStatus = 499;

/** The service's routes as a Hono app, without a socket. */
export function createApp(service: ServiceContext): Hono {
  // Not strict: a slash at the end of a path changes nothing. Handlers see the path without it.
  const app = new Hono({ strict: false });

  // Chat requests arrive by the thousand; wait a tick so that health checks need not queue behind them.
  app.use('/v1/chat/*', async (_context, next) => {
    await tickTime();
    await next();
  });
  app.use(traceRequests());
  app.use(async (context, next) => {
    const startedAt = performance.now();
    const sent = context.req.header(requestIdHeader);
    const id = sent !== undefined && requestIdPattern.test(sent) ? sent : randomUUID();
    // Set before the handlers, so that they can read it.
    exchangeOf(context).identify(id);
    await next();
    // Nobody reads the body of a HEAD answer; cancel it, since it may be an event stream.
    if (context.req.method === 'HEAD') await context.res.body?.cancel();
    service.log({
      level: 'info',
      event: 'request',
      request: id,
      ...projectOf(context.req.raw.headers),
      method: context.req.method,
      path: context.req.path,
      status: context.res.status,
      // Until the answer began; a stream continues after this.
      durationMs: performance.now() - startedAt,
    });
  });
  app.use(async (context, next) => {
    if (!service.connections.isBeyond(context)) return next();
    context.header('connection', 'close');
    throw service.admission.tooManyConnections();
  });
  app.use((context, next) => {
    // Anthropic's clients send their key in a header of their own, and would be told that it is missing.
    const { path } = context.req;
    if (isMessagesPath(path) && !context.req.header('authorization')) throw noSuchPath(path);
    return next();
  });
  app.use(requireKey(service.apiKey, service.keys));

  const on = registrar(app);
  for (const register of [
    healthRoutes,
    inferenceModelRoutes,
    chatRoutes,
    modelRoutes,
    checkpointRoutes,
    forkRoutes,
    groupRoutes,
    logRoutes,
    trainingJobRoutes,
  ])
    register(on, service);
  on(operations.openApi, (context) => context.json(openApiDocument()));
  refuseOtherMethods(app);

  app.notFound((context) => {
    throw noSuchPath(context.req.path);
  });
  app.onError((error, context) => {
    // Only for the log: the client has disconnected.
    if (error instanceof ClientLeftError) return new Response(null, { status: clientLeftStatus });
    const { path } = context.req;
    // OpenAI clients also call paths that this service lacks: responses, embeddings, files.
    const openAi = isOpenAiPath(path) || !isKnownPath(context);
    const answered = errorFor(error, service.log, exchangeOf(context).requestId);
    const { status } = answered;
    if (status === 415) context.header('accept-encoding', acceptedEncoding);
    if (status === 401) context.header('www-authenticate', 'Bearer');
    const seconds = error instanceof BusyError ? error.retryAfterSeconds : 1;
    if (status === 429 || status === 503) context.header('retry-after', String(seconds));
    // Ollama's clients show what is in this field as it is.
    if (path.startsWith('/api/')) return context.json({ error: answered.message }, status);
    const body = toErrorBody(answered, { openAi });
    return context.json(isMessagesPath(path) ? { type: 'error', ...body } : body, status);
  });
  return app;
}
