import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import { z } from 'zod';
import { describeThrown } from '../../../environment/index.ts';
import { bearerKeyOf, foreignRequest, isSameKey } from '../../../util/server-access.ts';
import { martingaleVersion } from '../../../util/version.ts';
import {
  type CreateRequest,
  callRequestSchema,
  createRequestSchema,
  secretsSchema,
  splitRequestSchema,
  type ToolList,
  taskRangeRequestSchema,
  taskRequestSchema,
} from '../protocol.ts';
import { flattened } from './blocks.ts';
import { callEvents, event, eventStream } from './call-stream.ts';
import type { EpisodeOptions, Opening } from './episode.ts';
import { type ReplyTool, type ServedEnvironment, toolList } from './servable.ts';
import type { ServedSession, Sessions } from './sessions.ts';
import { rangeOf, type Splits, splitOf } from './tasks.ts';

interface AppOptions {
  environment: ServedEnvironment;
  splits: Splits;
  /** The tools of every episode. */
  tools: ToolList['tools'];
  replyTool: ReplyTool;
  sessions: Sessions;
  apiKey: string;
  /** Whether it is reached from this machine only. */
  isLocal: boolean;
  deadlines: Pick<EpisodeOptions, 'timeoutMs' | 'rewardTimeoutMs'>;
  /** How long a request waits for a set-up before it is told to come back, in milliseconds. Default 25,000. */
  setupWaitMs?: number;
  /** Pause between signs of life of a running call, in milliseconds. Default 10,000. */
  pingMs?: number;
}

const maxBodyBytes = 16 * 1024 * 1024;

/** A client comes back after this many seconds. */
const retryAfter = '2';

/** Secrets that the client for Python always sends with its key. */
const keySecrets = ['api_key', 'OPENREWARD_API_KEY'];

/** The server of one environment, as the Open Reward Standard has it. */
export function createServedApp(options: AppOptions): Hono {
  const { environment, splits, sessions, replyTool, apiKey, isLocal } = options;
  const { pingMs = 10_000, setupWaitMs = 25_000 } = options;
  const app = new Hono();
  app.onError((error, context) => {
    if (error instanceof HTTPException) {
      const { status, cause } = error;
      const isLater = cause === later;
      return context.json(
        { detail: error.message },
        status,
        isLater ? { 'retry-after': retryAfter, 'x-backend-state': 'starting' } : {},
      );
    }
    return context.json({ detail: describeThrown(error) }, 500);
  });
  app.notFound((context) => context.json({ detail: `there is no ${context.req.path} here` }, 404));
  app.use(bodyLimit({ maxSize: maxBodyBytes, onError: () => refused(413, 'the body is too large') }));
  app.use(async (context, next) => {
    const { host, origin } = context.req.header();
    const foreign = foreignRequest({ host, origin }, { isLocal });
    if (foreign !== null) refused(403, foreign);
    await next();
  });
  app.get('/health', (context) => context.json({ status: 'ok' }));
  app.use(async (context, next) => {
    if (!isSameKey(keyOf(context), apiKey))
      refused(401, 'the key of the request is missing or not the one of this server');
    await next();
  });
  app.get('/version', (context) => context.json({ version: martingaleVersion, build_sha: null }));
  app.get('/list_environments', (context) => context.json([environment.name]));

  const begin = async (context: Context, request: CreateRequest) => {
    const id = sessionId(context);
    if (sessions.has(id)) refused(400, 'Session already exists');
    requireName(environment, request.env_name ?? environment.name);
    if (request.toolset_name != null)
      refused(400, `unknown toolset "${request.toolset_name}": there are none`);
    refuseSecrets(context);
    const task = request.task_spec ?? taskOf(splits, request.split ?? '', request.index ?? -1);
    const parsed = await environment.scenario.safeParseAsync(task);
    if (!parsed.success)
      refused(
        422,
        `the task does not fit the schema of "${environment.name}": ${z.prettifyError(parsed.error)}`,
      );
    if (sessions.has(id)) refused(400, 'Session already exists');
    if (sessions.isFull)
      refused(503, `all ${sessions.size} sessions are in use: come back when one is deleted`, later);
    sessions.open(id, {
      environment,
      scenario: parsed.data,
      replyTool: replyTool.name,
      ...options.deadlines,
    });
    return context.json({ sid: id });
  };
  app.post('/create_session', () =>
    eventStream(async function* () {
      yield event('task_id', randomUUID());
      yield event('end', '');
    }),
  );
  app.post('/create', async (context) => begin(context, await bodyOf(context, createRequestSchema)));
  app.post('/ping', (context) => {
    sessionOf(sessions, context);
    return context.json({ status: 'ok' });
  });
  app.post('/delete', async (context) => {
    const id = sessionId(context);
    await sessions.delete(id);
    return context.json({ sid: id });
  });
  app.post('/delete_session', (context) => context.json({ sid: sessionId(context) }));

  const ofEnvironment = new Hono();
  ofEnvironment.get('/tools', (context) => context.json(toolList(environment, options.tools, replyTool)));
  ofEnvironment.get('/splits', (context) => context.json([...splits.keys()].map(splitOf)));
  ofEnvironment.post('/tasks', async (context) => {
    const { split } = await bodyOf(context, splitRequestSchema);
    return context.json({ tasks: tasksOf(splits, split), env_name: environment.name });
  });
  ofEnvironment.post('/num_tasks', async (context) => {
    const { split } = await bodyOf(context, splitRequestSchema);
    return context.json({ num_tasks: tasksOf(splits, split).length });
  });
  ofEnvironment.post('/task', async (context) => {
    const { split, index } = await bodyOf(context, taskRequestSchema);
    return context.json({ task: taskOf(splits, split, index), env_name: environment.name });
  });
  ofEnvironment.post('/task_range', async (context) => {
    const { split, ...range } = await bodyOf(context, taskRangeRequestSchema);
    return context.json({ tasks: rangeOf(tasksOf(splits, split), range), env_name: environment.name });
  });
  const ready = (context: Context) => opened(sessionOf(sessions, context), setupWaitMs);
  ofEnvironment.get('/task_tools', async (context) =>
    context.json(toolList(environment, (await ready(context)).tools, replyTool)),
  );
  ofEnvironment.get('/prompt', async (context) => context.json(flattened((await ready(context)).messages)));
  ofEnvironment.get('/messages', async (context) => context.json((await ready(context)).messages));
  ofEnvironment.post('/call', async (context) => {
    const { task_id: known, ...call } = await bodyOf(context, callRequestSchema);
    const { episode, calls } = sessionOf(sessions, context);
    await ready(context);
    const id = known ?? calls.start(() => episode.call(call));
    return eventStream((signal) => callEvents(id, calls.get(id), { pingMs, signal }));
  });
  ofEnvironment.post('/score_group', () =>
    refused(404, `Environment "${environment.name}" does not implement score_group`),
  );
  // The standard's own client leaves the name out when it wants the first environment.
  app.route('/', ofEnvironment);
  app.use('/:environment/*', async (context, next) => {
    requireName(environment, context.req.param('environment'));
    await next();
  });
  app.route('/:environment', ofEnvironment);
  return app;
}

/** Marks a refusal after which the client comes back. */
const later = Symbol('later');

function refused(status: 400 | 401 | 403 | 404 | 413 | 422 | 503, message: string, cause?: unknown): never {
  throw new HTTPException(status, { message, cause });
}

function requireName({ name }: ServedEnvironment, asked: string): void {
  if (asked.toLowerCase() !== name.toLowerCase())
    refused(404, `unknown environment "${asked}": this server has "${name}"`);
}

async function bodyOf<Schema extends z.ZodType>(context: Context, schema: Schema): Promise<z.output<Schema>> {
  const text = await context.req.text();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return refused(400, `the body is not JSON: ${describeThrown(error)}`);
  }
  const parsed = schema.safeParse(value);
  return parsed.success ? parsed.data : refused(422, z.prettifyError(parsed.error));
}

function keyOf(context: Context): string {
  return bearerKeyOf(context.req.header('authorization')) || (context.req.header('x-api-key') ?? '').trim();
}

function sessionId(context: Context): string {
  return context.req.header('x-session-id')?.trim() || refused(400, 'X-Session-ID header is required');
}

function sessionOf(sessions: Sessions, context: Context): ServedSession {
  return (
    sessions.use(sessionId(context)) ??
    refused(
      404,
      'Active environment not found: the session was not created, or is deleted, or was idle too long',
    )
  );
}

/** @throws HTTPException if the set-up failed, or takes longer than a request should. */
async function opened({ episode }: ServedSession, waitMs: number): Promise<Opening> {
  const waiting = new AbortController();
  const tooLong = sleep(waitMs, null, { signal: waiting.signal, ref: false }).catch(() => null);
  const opening = await Promise.race([episode.opening(), tooLong]).finally(() => waiting.abort());
  return opening ?? refused(503, 'Environment still starting.', later);
}

/** Refuses the secrets of a client: the environment's code reads what it needs itself. */
function refuseSecrets(context: Context): void {
  const names = secretNames(context.req.header('x-secrets')).filter((name) => !keySecrets.includes(name));
  if (names.length === 0) return;
  refused(400, `this environment takes no secrets, and got ${names.join(', ')}: give them to its server`);
}

function secretNames(header: string | undefined): string[] {
  if (!header) return [];
  try {
    return Object.keys(secretsSchema.parse(JSON.parse(Buffer.from(header, 'base64').toString())));
  } catch {
    return refused(400, 'X-Secrets is not a JSON object in base64');
  }
}

const tasksOf = (splits: Splits, split: string): readonly unknown[] =>
  splits.get(split) ?? refused(400, `Invalid split "${split}": there are ${[...splits.keys()].join(', ')}`);

function taskOf(splits: Splits, split: string, index: number): unknown {
  const tasks = tasksOf(splits, split);
  if (index >= 0 && index < tasks.length) return tasks[index];
  return refused(400, `Invalid index ${index}: the split "${split}" has ${tasks.length} tasks`);
}
