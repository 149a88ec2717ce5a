import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { ClientRequest } from 'node:http';
import type { Trajectory } from './trajectory.ts';

const scope = new AsyncLocalStorage<Trajectory | undefined>();

/** Runs `body`. Every model call that it makes, also through other functions and timers, belongs to this trajectory. */
export function runInTrajectory<Result>(trajectory: Trajectory, body: () => Result): Result {
  return scope.run(trajectory, body);
}

/**
 * Runs `body` outside of any trajectory: its calls of the policy are not recorded, and its calls of other models are
 * not reported as mistakes. For parts of the environment, such as a user simulator with a model of its own:
 *
 *     const { text } = await runOutsideTrajectory(() => generateText({ model: simulator, prompt }));
 */
export function runOutsideTrajectory<Result>(body: () => Result): Result {
  return scope.run(undefined, body);
}

/** The trajectory of the current async scope: a model call made here belongs to it. */
export function currentTrajectory(): Trajectory | undefined {
  return scope.getStore();
}

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

/** Host and path of a model are cut at this length. */
const longestName = 200;

const expected = new AsyncLocalStorage<true>();
const ownHosts = new Set<string>();
let isWatching = false;

/** Runs a model call of the harness itself: its requests do not count as those of other models. */
export function runAsOwnCall<Result>(body: () => Result): Result {
  return expected.run(true, body);
}

/** Requests to this address reach the rollout's own model, which records them. */
export function ownModelAt(baseUrl: string): void {
  ownHosts.add(new URL(baseUrl).host);
}

/**
 * From here on, requests to model APIs that a rollout's code makes are counted in its trajectory: those through
 * `fetch`, undici or `node:http` of this thread. The requests are not changed.
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

/** Never throws: the library that makes the request calls it. */
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
