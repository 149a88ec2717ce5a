import type { IncomingMessage, ServerResponse } from 'node:http';
import { currentTrajectory } from '../trajectory/index.ts';
import { answerChat } from './chat-completions.ts';
import { EndpointError, errorBody, errorResponse, messagesErrorBody } from './endpoint-error.ts';
import { type EndpointAnswer, readJson, writeAnswer, writeJson } from './exchange.ts';
import { answerCount, answerMessage } from './messages/answer-message.ts';
import { answerResponse } from './responses/answer-response.ts';
import type { EndpointSession } from './session.ts';

/** The beginning of every key. */
export const keyPrefix = 'martingale.';

/** The routes of model calls. Clients also ask for addresses that are not there. */
const callRoutes: ReadonlySet<string> = new Set([
  'POST /v1/chat/completions',
  'POST /v1/responses',
  'POST /v1/messages',
]);

const countRoute = 'POST /v1/messages/count_tokens';

type FindSession = (apiKey: string) => EndpointSession | undefined;

/** Answers a request to the `/v1` routes of the clients of OpenAI and Anthropic. `find` returns the session of a valid key. */
export async function answerRequest(
  request: IncomingMessage,
  response: ServerResponse,
  find: FindSession,
): Promise<void> {
  let session: EndpointSession | undefined;
  const path = pathOf(request);
  try {
    if (isServed(`${request.method} ${path}`)) session = sessionOf(request, find);
    await writeAnswer(response, await answerTo(`${request.method} ${path}`, request, response, session));
  } catch (error) {
    // The policy's caller notes the outcome of each call, but a rejected request never became a call.
    if (error instanceof EndpointError && callRoutes.has(`${request.method} ${path}`))
      session?.run(() => currentTrajectory()?.failCall(error));
    if (response.headersSent) response.destroy();
    else writeJson(response, errorResponse(error, bodyFor(path)));
  }
}

/** Whether a route needs a key. What is not served says so without one, because clients of others send theirs elsewhere. */
const isServed = (route: string): boolean =>
  callRoutes.has(route) || route === countRoute || /^(GET|HEAD) \/v1\/models(\/|$)/.test(route);

/** The form of errors that the clients of a path read. */
function bodyFor(path: string): (error: unknown) => unknown {
  if (path === '/v1/messages' || path.startsWith('/v1/messages/')) return messagesErrorBody;
  // Ollama's clients show what is in this field as it is.
  if (path.startsWith('/api/')) return (error) => ({ error: errorBody(error).error.message });
  return errorBody;
}

async function answerTo(
  route: string,
  request: IncomingMessage,
  response: ServerResponse,
  session: EndpointSession | undefined,
): Promise<EndpointAnswer> {
  if (session) {
    if (route === 'POST /v1/chat/completions') return answerChat(session, await readJson(request), response);
    if (route === 'POST /v1/responses') return answerResponse(session, await readJson(request), response);
    if (route === 'POST /v1/messages') return answerMessage(session, await readJson(request), response);
    if (route === countRoute) return answerCount(session, await readJson(request), response);
    if (route.endsWith(' /v1/models')) return { json: { object: 'list', data: [modelOf(session)] } };
    // This model answers whatever name the agent uses.
    return { json: modelOf(session) };
  }
  throw new EndpointError(
    404,
    'unknown_path',
    `${route} is not served. The paths are POST /v1/chat/completions, POST /v1/responses, POST /v1/messages, ` +
      'POST /v1/messages/count_tokens and GET /v1/models.',
  );
}

/**
 * The path without its query. A client with a proxy sends the whole URL, and Anthropic's client adds `/v1` to a base URL
 * that has it already.
 */
function pathOf({ url = '' }: IncomingMessage): string {
  const path = url.startsWith('/') ? url : URL.canParse(url) ? new URL(url).pathname : url;
  const end = path.indexOf('?');
  return (end < 0 ? path : path.slice(0, end)).replace(/^\/v1\/v1\//, '/v1/');
}

const modelOf = ({ model }: EndpointSession) => ({
  id: model.name,
  object: 'model',
  created: 0,
  owned_by: 'martingale',
});

/** @throws EndpointError for a request without a valid key. */
function sessionOf({ headers }: IncomingMessage, find: FindSession): EndpointSession {
  // Some clients send the key of their program, and a token of the environment beside it.
  const keys = [headers['x-api-key'], /^bearer\s+(\S+)\s*$/i.exec(headers.authorization ?? '')?.[1]].filter(
    (key) => typeof key === 'string',
  );
  const session = keys.map(find).find((found) => found !== undefined);
  if (session) return session;
  throw refusal(keys.find((key) => key.startsWith(keyPrefix)) ?? keys[0]);
}

function refusal(apiKey: string | undefined): EndpointError {
  if (apiKey === undefined)
    return new EndpointError(
      401,
      'api_key_missing',
      'The request has no key. Send the `apiKey` of `model.endpoint()` as `Authorization: Bearer <key>` or `x-api-key: <key>`.',
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
