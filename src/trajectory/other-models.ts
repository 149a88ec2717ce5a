import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { ClientRequest } from 'node:http';
import { currentTrajectory } from './scope.ts';

/**
 * Paths on which models answer: Chat Completions, Responses and Messages, and those of Gemini, Bedrock, Ollama,
 * Cohere and the AI gateway.
 */
const modelPath = new RegExp(
  [
    '/(?:chat/)?completions$',
    '/(?:v\\d[^/]*|openai)/(?:messages|responses)$',
    ':(?:generateContent|streamGenerateContent|rawPredict|streamRawPredict)$',
    '/model/[^/]+/(?:converse|converse-stream|invoke|invoke-with-response-stream)$',
    '/api/(?:chat|generate)$',
    '/v\\d+/chat$',
    '/ai/language-model$',
  ].join('|'),
);

/** Long enough for every host and path of a model; what is longer is cut. */
const longestName = 200;

const expected = new AsyncLocalStorage<true>();
const ownHosts = new Set<string>();
let isWatching = false;

/** Runs the harness's own model calls: their requests are known, and are not counted as those of other models. */
export function runAsOwnCall<Result>(body: () => Result): Result {
  return expected.run(true, body);
}

/** Requests to this address reach the rollout's own model, and are recorded there. */
export function ownModelAt(baseUrl: string): void {
  ownHosts.add(new URL(baseUrl).host);
}

/**
 * From here on, requests to the APIs of models that code of a rollout makes are counted in its trajectory: those that
 * go out by `fetch`, undici or `node:http` of this thread. Nothing about them is changed.
 */
export function watchOtherModels(): void {
  if (isWatching) return;
  isWatching = true;
  subscribe('undici:request:create', (message) => {
    const request = partOf(message, 'request');
    observe({
      method: partOf(request, 'method'),
      path: partOf(request, 'path'),
      origin: partOf(request, 'origin'),
    });
  });
  subscribe('http.client.request.created', (message) => {
    const request = partOf(message, 'request');
    if (!(request instanceof ClientRequest)) return;
    const { method, path, protocol } = request;
    observe({ method, path, origin: `${protocol}//${request.getHeader('host') ?? request.host}` });
  });
}

const partOf = (value: unknown, name: string): unknown => Reflect.get(Object(value), name);

/** Never throws: it runs within the library that makes the request. */
function observe(request: { method: unknown; path: unknown; origin: unknown }): void {
  const trajectory = currentTrajectory();
  if (!trajectory || trajectory.isClosed || expected.getStore()) return;
  if (request.method !== 'POST') return;
  const [path = ''] = String(request.path).split('?');
  const origin = String(request.origin);
  if (!modelPath.test(path) || !URL.canParse(origin)) return;
  const { host } = new URL(origin);
  if (!ownHosts.has(host)) trajectory.observations.addOtherModel(`${host}${path}`.slice(0, longestName));
}
