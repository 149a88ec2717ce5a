import { type Context, Hono } from 'hono';
import { currentTrajectory } from '../trajectory/index.ts';
import { answerChat } from './chat-completions.ts';
import { EndpointError, errorResponse } from './endpoint-error.ts';
import { answerResponse } from './responses/answer-response.ts';
import type { EndpointSession } from './session.ts';

/** What every key begins with. */
export const keyPrefix = 'martingale.';

type Env = { Variables: { session: EndpointSession } };

const maxBody = 64 * 2 ** 20;

/** The `/v1` routes of OpenAI-compatible clients. `find` returns the session of a valid key. */
export function createEndpointApp(find: (apiKey: string) => EndpointSession | undefined): Hono<Env> {
  const app = new Hono<Env>();
  app.onError((error, context) => {
    // The policy's caller notes the outcome of each call, but a rejected request never became a call.
    const session: EndpointSession | undefined = context.var.session;
    if (error instanceof EndpointError) session?.run(() => currentTrajectory()?.endCall('unanswered'));
    return errorResponse(error);
  });
  app.notFound((context) =>
    errorResponse(
      new EndpointError(
        404,
        'unknown_path',
        `${context.req.method} ${context.req.path} is not served. The paths are POST /v1/chat/completions, ` +
          'POST /v1/responses and GET /v1/models.',
      ),
    ),
  );
  app.use('/v1/*', async (context, next) => {
    const apiKey = /^bearer\s+(\S+)\s*$/i.exec(context.req.header('authorization') ?? '')?.[1];
    const session = apiKey === undefined ? undefined : find(apiKey);
    if (!session) throw refusal(apiKey);
    context.set('session', session);
    await next();
  });
  app.post('/v1/chat/completions', async (context) =>
    answerChat(context.var.session, await readBody(context), context.req.raw.signal),
  );
  app.post('/v1/responses', async (context) =>
    answerResponse(context.var.session, await readBody(context), context.req.raw.signal),
  );
  app.get('/v1/models', (context) => context.json({ object: 'list', data: [modelOf(context.var.session)] }));
  // This model answers whatever name the agent uses.
  app.get('/v1/models/*', (context) => context.json(modelOf(context.var.session)));
  return app;
}

const modelOf = ({ model }: EndpointSession) => ({
  id: model.name,
  object: 'model',
  created: 0,
  owned_by: 'martingale',
});

function refusal(apiKey: string | undefined): EndpointError {
  if (apiKey === undefined)
    return new EndpointError(
      401,
      'api_key_missing',
      'The request has no key. Send the `apiKey` of `model.endpoint()` as `Authorization: Bearer <key>`.',
    );
  if (apiKey.startsWith(keyPrefix))
    return new EndpointError(
      410,
      'trajectory_closed',
      'The rollout of this key has ended, or belongs to another process. Await every call of the agent inside the rollout function, ' +
        'and stop its processes when `signal` aborts.',
    );
  return new EndpointError(
    401,
    'invalid_api_key',
    'The key does not belong to this process. Get one from `model.endpoint()` inside the rollout.',
  );
}

async function readBody(context: Context): Promise<unknown> {
  const encoding = context.req.header('content-encoding') ?? 'identity';
  if (encoding !== 'identity')
    throw new EndpointError(
      415,
      'unsupported_encoding',
      `The body has the Content-Encoding ${encoding}. Send it uncompressed.`,
    );
  if (Number(context.req.header('content-length')) > maxBody) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of context.req.raw.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > maxBody) throw tooLarge();
    chunks.push(chunk);
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new EndpointError(400, 'invalid_json', `The body is not JSON in UTF-8: ${reason}`);
  }
}

const tooLarge = () => new EndpointError(413, 'body_too_large', `The body is larger than ${maxBody} bytes.`);
