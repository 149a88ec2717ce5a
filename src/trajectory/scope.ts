import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { checkArgument } from '../util/option-names.ts';
import type { Trajectory } from './trajectory.ts';

const scope = new AsyncLocalStorage<Trajectory | undefined>();

/** Runs `body`. Its model calls, including those from other functions and timers, belong to this trajectory. */
export function runInTrajectory<Result>(trajectory: Trajectory, body: () => Result): Result {
  checkArgument('body', body, 'function');
  return scope.run(trajectory, body);
}

/**
 * Runs `body` outside of any trajectory: its calls to the policy are not recorded, and its calls to other models are
 * not reported as mistakes. Use it for parts of the environment, such as a user simulator with its own model:
 *
 *     const { text } = await runOutsideTrajectory(() => generateText({ model: simulator, prompt }));
 */
export function runOutsideTrajectory<Result>(body: () => Result): Result {
  checkArgument('body', body, 'function');
  return scope.run(undefined, body);
}

/** The trajectory of the current async scope. Model calls made in this scope belong to it. */
export function currentTrajectory(): Trajectory | undefined {
  return scope.getStore();
}

/** Paths of model APIs: Chat Completions, Responses, Messages, Gemini, Bedrock, Ollama, Cohere, AI gateway. */
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

/** Maximum length of the host and path that are counted; the rest is cut. */
const maxNameLength = 200;

const expected = new AsyncLocalStorage<true>();
const ownHosts = new Set<string>();
let isWatching = false;

/** Runs a model call of the harness itself. Its requests are not counted as calls to other models. */
export function runAsOwnCall<Result>(body: () => Result): Result {
  return expected.run(true, body);
}

/** Registers an address of the rollout's own model. Requests to it are recorded as calls and not counted here. */
export function registerOwnHost(baseUrl: string): void {
  ownHosts.add(new URL(baseUrl).host);
}

/**
 * Starts counting requests of a rollout's code to model APIs, in its trajectory. Covers `fetch`, undici and `node:http`
 * of this thread. The requests are not changed.
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
    // An import of `node:http` would load all of `fetch` with it.
    const { ClientRequest } = process.getBuiltinModule('node:http');
    if (!(request instanceof ClientRequest)) return;
    const { method, path, protocol } = request;
    observe({ method, path, origin: `${protocol}//${request.getHeader('host') ?? request.host}` });
  });
}

const partOf = (value: unknown, name: string): unknown => Reflect.get(Object(value), name);

/** Never throws, because the library that makes the request calls it. */
function observe(request: { method: unknown; path: unknown; origin: unknown }): void {
  const trajectory = currentTrajectory();
  if (!trajectory || trajectory.isClosed || expected.getStore()) return;
  if (request.method !== 'POST') return;
  const [path = ''] = String(request.path).split('?');
  const origin = String(request.origin);
  if (!modelPath.test(path) || !URL.canParse(origin)) return;
  const { host } = new URL(origin);
  if (!ownHosts.has(host)) trajectory.observations.addOtherModel(`${host}${path}`.slice(0, maxNameLength));
}
