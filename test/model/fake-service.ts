import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { createClient } from 'martingale';
import type {
  ChatCompletionRequest,
  Choice,
  Message,
  ToolCall,
  TrajectoryGroupBody,
} from '../../src/contract/index.ts';
import { startServer } from '../support/http-server.ts';

/** A reply of the fake policy: text, or tool calls with literal arguments. */
export interface Reply {
  text?: string;
  toolCalls?: { name: string; arguments: string }[];
  /** Model name in the answer. Default: the requested one. */
  model?: string;
  /** Default: `tool_calls` if there are tool calls, else `stop`. */
  finishReason?: Choice['finish_reason'];
  /** Answers with this status and body instead of a reply. */
  refusal?: { status: number; body: object };
  /** Omits token ids, like services without `return_token_ids`. */
  withoutTokenIds?: boolean;
}

export type FakePolicy = (request: ChatCompletionRequest) => Reply | Promise<Reply>;

export interface FakeJob {
  id: string;
  kind: 'rl' | 'sft';
  idempotencyKey: string;
  body: Record<string, unknown>;
  cancelled: boolean;
}

export interface FakeServiceOptions {
  policy: FakePolicy;
  /** Metrics of the gradient steps of each RL job. */
  gradientSteps?: Record<string, number>[];
  /** Runs before the request of a job is answered. */
  beforeJob?: () => Promise<void>;
  /** So many jobs fail because the service's process ended too often. Default 0. */
  lostJobs?: number;
  /** How jobs end. `hangs` waits to be cancelled. Default `ends`. */
  jobs?: 'ends' | 'fails' | 'hangs';
}

const modelId = '7c9f7ab8-3f5e-4d7c-9d7b-0a8f6f1f2a11';
const endOfTurn = 1_000_000;
const roles = ['developer', 'system', 'user', 'assistant', 'tool', 'function'];

const encode = (value: string) => [...value].map((character) => character.codePointAt(0) ?? 0);
const plain = (content: Message['content']) =>
  typeof content === 'string'
    ? content
    : (content ?? []).map((part) => ('text' in part ? part.text : part.refusal)).join('');
const written = (content: string | null, calls: readonly ToolCall[] = []) =>
  `${content ?? ''}${calls.map((call) => `<${call.id} ${call.function.name} ${call.function.arguments}>`).join('')}`;

/** Token ids of a conversation: one per code point, one per role and one per end of turn. */
export function render(messages: readonly Message[]): number[] {
  const ids = messages.flatMap((message) => {
    const opening = endOfTurn + 1 + roles.indexOf(message.role);
    if (message.role !== 'assistant') return [opening, ...encode(plain(message.content)), endOfTurn];
    const content = written(plain(message.content), message.tool_calls ?? []);
    return [opening, ...(message.token_ids ?? [...encode(content), endOfTurn])];
  });
  return [...ids, endOfTurn + 1 + roles.indexOf('assistant')];
}

export type FakeService = Awaited<ReturnType<typeof startFakeService>>;

/** A small service with the routes that the harness uses. It records its requests. */
export async function startFakeService(options: FakeServiceOptions) {
  const requests: ChatCompletionRequest[] = [];
  const logs: { split: string; trajectory_groups: TrajectoryGroupBody[] }[] = [];
  const jobs: FakeJob[] = [];
  const deleted: number[] = [];
  const models: object[] = [];
  let uploaded = '';
  let steps = [0];
  let calls = 0;

  const chat = async (request: ChatCompletionRequest, response: ServerResponse) => {
    requests.push(request);
    const call = calls++;
    const reply = await options.policy(request);
    if (reply.refusal) return json(response, reply.refusal.body, reply.refusal.status);
    const toolCalls = (reply.toolCalls ?? []).map(
      (made, index): ToolCall => ({ id: `call_${call}_${index}`, type: 'function', function: made }),
    );
    const content = toolCalls.length > 0 && !reply.text ? null : (reply.text ?? '');
    const ids = [...encode(written(content, toolCalls)), endOfTurn];
    const choice: Choice = {
      index: 0,
      message: { role: 'assistant', content, ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}) },
      finish_reason: reply.finishReason ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop'),
      logprobs: { content: ids.map((id) => ({ token: String(id), logprob: -0.5, top_logprobs: [] })) },
      ...(reply.withoutTokenIds ? {} : { token_ids: ids }),
      sampling: {
        temperature: request.temperature ?? 1,
        top_p: 1,
        top_k: request.top_k ?? -1,
        min_p: 0,
        constraint: null,
      },
    };
    const prompt = render(request.messages);
    const head = { id: `chatcmpl-${call}`, created: 0, model: reply.model ?? request.model ?? '' };
    const promptIds = reply.withoutTokenIds ? {} : { prompt_token_ids: prompt };
    const usage = {
      prompt_tokens: prompt.length,
      completion_tokens: ids.length,
      total_tokens: prompt.length + ids.length,
    };
    if (!request.stream) {
      return json(response, { ...head, object: 'chat.completion', choices: [choice], usage, ...promptIds });
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = (delta: object, rest: object = {}, top: object = {}) =>
      response.write(
        `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: null, ...rest }], ...top })}\n\n`,
      );
    chunk({ role: 'assistant' }, {}, promptIds);
    const half = Math.ceil(ids.length / 2);
    const logprobs = (from: number, to: number) => ({
      token_ids: ids.slice(from, to),
      logprobs: { content: choice.logprobs?.content?.slice(from, to) },
    });
    const middle = Math.ceil((content ?? '').length / 2);
    if (content) chunk({ content: content.slice(0, middle) }, logprobs(0, half));
    else chunk({}, logprobs(0, half));
    if (content) chunk({ content: content.slice(middle) });
    for (const [index, made] of toolCalls.entries()) {
      const { name, arguments: input } = made.function;
      chunk({ tool_calls: [{ index, id: made.id, type: 'function', function: { name, arguments: '' } }] });
      for (const piece of [input.slice(0, 4), input.slice(4)]) {
        chunk({ tool_calls: [{ index, function: { arguments: piece } }] });
      }
    }
    chunk(
      {},
      { ...logprobs(half, ids.length), finish_reason: choice.finish_reason, sampling: choice.sampling },
    );
    response.write(
      `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [], usage })}\n\n`,
    );
    response.end('data: [DONE]\n\n');
  };

  const createJob = (kind: 'rl' | 'sft', request: IncomingMessage, body: Record<string, unknown>) => {
    const idempotencyKey = String(request.headers['idempotency-key']);
    const job = { id: randomUUID(), kind, idempotencyKey, body, cancelled: false };
    jobs.push(job);
    return { id: job.id };
  };

  const events = (job: FakeJob, response: ServerResponse) => {
    const gradientSteps = options.gradientSteps ?? [{ loss: 1, entropy: 2, grad_norm: 3 }];
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (type: string, data: object) => {
      const id = randomUUID();
      response.write(`id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ id, type, data })}\n\n`);
    };
    send('training_started', { num_sequences: gradientSteps.length });
    if (options.jobs === 'hangs') return;
    const isLost = jobs.indexOf(job) < (options.lostJobs ?? 0);
    if (isLost)
      send('training_failed', { error_message: 'The whole service ended 40 times', reason: 'process_lost' });
    else if (options.jobs === 'fails')
      send('training_failed', { error_message: 'the engine ran out of memory' });
    else {
      for (const metrics of gradientSteps) send('gradient_step', metrics);
      steps.push(Math.max(...steps) + 1);
      send('training_ended', {});
    }
    response.end();
  };

  const route = async (request: IncomingMessage, response: ServerResponse) => {
    const { pathname } = new URL(request.url ?? '/', 'http://fake');
    const sent = await text(request);
    const endpoint = `${request.method} ${pathname.replace(/^\/v1/, '')}`;
    if (endpoint === 'POST /preview/uploads') {
      uploaded = sent;
      return json(response, { id: 'upload', url: 'upload:1', sha256: '', bytes: sent.length });
    }
    const body = sent === '' ? {} : JSON.parse(sent);
    const job = jobs.find(({ id }) => endpoint.includes(id));
    if (endpoint === 'POST /chat/completions') return chat(body, response);
    if (endpoint === 'POST /preview/models') {
      const { project, name, base_model } = body;
      const model = { id: modelId, entity: 'local', project, name, base_model, run_id: null };
      models.push(model);
      return json(response, model);
    }
    if (endpoint === 'GET /preview/models')
      return json(response, { object: 'list', data: models, first_id: '', last_id: '', has_more: false });
    if (endpoint === 'GET /preview/base-models') return json(response, []);
    if (endpoint === `POST /preview/models/${modelId}/log`) {
      logs.push(body);
      return json(response, {});
    }
    if (endpoint === `DELETE /preview/models/${modelId}/checkpoints`) {
      deleted.push(...body.steps);
      steps = steps.filter((step) => !body.steps.includes(step));
      return json(response, { deleted_count: body.steps.length, not_found_steps: [] });
    }
    if (endpoint === `GET /preview/models/${modelId}/checkpoints`) {
      const data = [...steps].reverse().map((step) => ({ id: randomUUID(), step, metrics: {} }));
      return json(response, {
        object: 'list',
        data: data.slice(0, 1),
        first_id: '',
        last_id: '',
        has_more: false,
      });
    }
    if (endpoint.endsWith('training-jobs')) await options.beforeJob?.();
    if (endpoint === 'POST /preview/training-jobs') return json(response, createJob('rl', request, body));
    if (endpoint === 'POST /preview/sft-training-jobs')
      return json(response, createJob('sft', request, body));
    if (job && endpoint.endsWith('/events')) return events(job, response);
    if (job && endpoint.endsWith('/cancel')) {
      job.cancelled = true;
      return json(response, { id: job.id });
    }
    json(response, { detail: `the fake service has no ${endpoint}` }, 404);
  };

  const server = await startServer((request, response) => void route(request, response));
  const client = createClient({ baseUrl: server.url, apiKey: 'key' });
  return {
    baseUrl: server.url,
    client,
    requests,
    logs,
    jobs,
    deleted,
    uploaded: () => uploaded,
    steps: () => steps,
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
}

function json(response: ServerResponse, body: object, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
