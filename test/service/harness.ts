import { onTestFinished } from 'vitest';
import type { StartServiceOptions } from '../../src/service/index.ts';
import { startService } from '../../src/service/index.ts';
import { temporaryFolder } from '../support/files.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';

// biome-ignore lint/suspicious/noExplicitAny: answers of a server under test have no type before they are checked.
export type Json = any;

export interface Answer {
  status: number;
  headers: Headers;
  body: Json;
}

/** Calls of a service, with complete answers. */
export function callsTo(url: string, apiKey = 'test-key') {
  const raw = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  const call = async (...request: Parameters<typeof raw>): Promise<Answer> => {
    const response = await raw(...request);
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? null : JSON.parse(text),
    };
  };
  /** All events of a job, from the event stream. */
  const follow = async (jobId: string, headers: Record<string, string> = {}): Promise<Json[]> => {
    const path = `/v1/preview/training-jobs/${jobId}/events`;
    const response = await raw('GET', path, undefined, { accept: 'text/event-stream', ...headers });
    return frames(await response.text());
  };
  return { raw, call, follow };
}

/** Starts a service with a scripted engine on a free port. It closes with the test. */
export async function start(options: Partial<StartServiceOptions> & { engine?: ScriptedEngine } = {}) {
  const engine = options.engine ?? new ScriptedEngine();
  const dataFolder = options.dataFolder ?? (await temporaryFolder());
  const log: unknown[] = [];
  const service = await startService({
    apiKey: 'test-key',
    closeTimeoutMs: 1000,
    log: (entry) => log.push(entry),
    ...options,
    engine,
    dataFolder,
  });
  onTestFinished(() => service.close());
  const { raw, call, follow } = callsTo(service.url, service.apiKey);
  const chat = (body: object) =>
    call('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'hi' }], ...body });
  const createModel = async (fields: object = {}): Promise<Json> => {
    const { body, status } = await call('POST', '/v1/preview/models', {
      project: 'desk',
      name: 'agent',
      base_model: baseModel.id,
      ...fields,
    });
    if (status !== 200) throw new Error(JSON.stringify(body));
    return body;
  };
  return { service, engine, dataFolder, log, raw, call, chat, createModel, follow };
}

export const frames = (text: string): Json[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map((line) => JSON.parse(line.slice('data: '.length)));

/** A sampled choice as the service returns it, for trajectories. */
export const choice = (tokenIds: number[], fields: object = {}) => ({
  index: 0,
  finish_reason: 'stop',
  message: { role: 'assistant', content: 'as sampled' },
  token_ids: tokenIds,
  logprobs: {
    content: tokenIds.map((_, index) => ({ token: '', logprob: -index - 1, bytes: [], top_logprobs: [] })),
  },
  sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: null },
  ...fields,
});

export const group = (...trajectories: object[]) => ({ trajectories });

export const trajectory = (reward: number, tokenIds: number[], fields: object = {}) => ({
  messages_and_choices: [{ role: 'user', content: 'hi' }, choice(tokenIds)],
  reward,
  ...fields,
});
