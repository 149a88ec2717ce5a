import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import { onTestFinished } from 'vitest';
import { type ProtobufField, ProtobufWriter, protobufFields } from '../../../src/util/protobuf.ts';
import { encodeTar } from '../../../src/util/tar.ts';

/** `model/name` of a route of files for sampling. */
const fileOf = (route: string): string =>
  route.replace(/^.*training_runs\/([^/]+)\/checkpoints\/(?:sampler_weights\/)?([^/]+).*$/, '$1/$2');

/** What a server does instead of answering: ends the connection, answers a status, or waits for ever. */
export type Fault = 'cut' | 'silent' | number;

interface Received {
  /** `POST asample` without the address. */
  path: string;
  model: string | undefined;
  /** Empty for a pass. */
  body: Partial<RequestBody>;
}

/** The fields of all requests. */
interface RequestBody {
  model_id: string;
  session_id: string;
  model_seq_id?: number;
  seq_id?: number;
  request_id: string;
  path: string;
  optimizer: boolean;
  adam_params: { learning_rate: number; beta1?: number; beta2?: number; eps?: number };
  prompt: { chunks: { tokens: number[] }[] };
  num_samples: number;
  sampling_params: { max_tokens: number; temperature: number; seed?: number; stop?: number[] };
  sampling_session_id?: string;
  prompt_logprobs?: boolean;
}

interface AdapterState {
  bias: Float64Array;
  gradient: Float64Array;
  sequences: number;
  moments: { first: Float64Array; second: Float64Array; updates: number };
  /** Whether it has been trained since its session for sampling was opened, so that it must not be sampled. */
  isTrained: boolean;
}

interface ServerOptions {
  vocabularySize: number;
  reduction?: 'mean' | 'sum';
  /**
   * Answers as the hosted service's public client expects: it wants this key, numbered requests and small passes, says
   * `try_again`, and tells errors with status 200.
   */
  hostedKey?: string;
  /**
   * Milliseconds that a result is held after it is asked for. Default: the first request for each is answered at once with
   * 408.
   */
  delayMs?: number;
  /** Called with each request; may let it fail before or after its work is done. */
  fault?: (received: Received, when: 'before' | 'after') => Fault | undefined;
}

/**
 * A server of the Tinker API 0.25 whose model predicts each token from the one before it, by a table of logits and a bias
 * for each token, which it trains with Adam. It behaves as SkyRL does with its JAX backend.
 */
export class TinkerServer {
  readonly received: Received[] = [];
  fault: NonNullable<ServerOptions['fault']>;
  /** Adapters that it can have at once. */
  places = 32;
  /** Adapters that other programs have. */
  others = 0;
  /** Called with each request before it is served; what it returns is waited for. */
  hold: (received: Received) => Promise<void> | undefined = () => undefined;
  url = '';
  readonly #size: number;
  readonly #reduction: 'mean' | 'sum';
  readonly #hostedKey: string | undefined;
  readonly #delayMs: number | undefined;
  readonly #base: Float64Array[];
  /** What `#row` has computed, by the adapter's bias. */
  readonly #rows = new WeakMap<object, Float64Array[]>();
  #sessions = new Set<string>();
  #adapters = new Map<string, AdapterState>();
  readonly #samplers = new Map<string, string>();
  /** Adapters as files for sampling, by the model and their name. */
  readonly files = new Map<string, Float64Array>();
  /** The names and contents of such a file's archive. */
  archiveOf = (bias: Float64Array): Record<string, Uint8Array> => ({
    'adapter_config.json': Buffer.from('{"peft_type":"LORA","r":4,"base_model_name_or_path":"/secret"}'),
    'adapter_model.safetensors': new Uint8Array(bias.buffer),
  });
  readonly checkpoints = new Map<string, Pick<AdapterState, 'bias' | 'moments'>>();
  readonly #results = new Map<string, { type: string; body: Uint8Array | string } | { error: string }>();
  #count = 0;

  private constructor({
    vocabularySize,
    reduction = 'mean',
    hostedKey,
    delayMs,
    fault = () => undefined,
  }: ServerOptions) {
    this.#size = vocabularySize;
    this.#delayMs = delayMs;
    this.#hostedKey = hostedKey;
    this.#reduction = reduction;
    this.fault = fault;
    this.#base = Array.from({ length: vocabularySize }, (_, row) =>
      Float64Array.from({ length: vocabularySize }, (_, column) => Math.sin(row * 31 + column * 17)),
    );
  }

  /** A server for the rest of the test. */
  static async start(options: ServerOptions): Promise<TinkerServer> {
    const { tinker, close } = await TinkerServer.listen(options);
    onTestFinished(close);
    return tinker;
  }

  static async listen(options: ServerOptions): Promise<{ tinker: TinkerServer; close: () => void }> {
    const tinker = new TinkerServer(options);
    const server = createServer((request, response) => void tinker.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', 1024, resolve));
    tinker.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const close = () => {
      server.close();
      server.closeAllConnections();
    };
    return { tinker, close };
  }

  /** Forgets all that is not a checkpoint, as a restart does. */
  restart(): void {
    this.#sessions = new Set();
    this.#adapters = new Map();
  }

  get openAdapters(): number {
    return this.#adapters.size;
  }

  /** The log-probability of a token after another, under a checkpoint or the base model. */
  logprob(checkpoint: string | null, previous: number, token: number): number {
    return this.#row(checkpoint === null ? undefined : this.checkpoints.get(checkpoint), previous)[
      token
    ] as number;
  }

  /** The log-probabilities of all tokens after a token. */
  #row(adapter: Pick<AdapterState, 'bias'> | undefined, previous: number): Float64Array {
    const logits = this.#base[previous] as Float64Array;
    const rows = this.#rows.get(adapter?.bias ?? this.#base) ?? [];
    rows[previous] ??= logSoftmax(logits.map((logit, id) => logit + (adapter?.bias[id] ?? 0)));
    this.#rows.set(adapter?.bias ?? this.#base, rows);
    return rows[previous];
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = new Uint8Array(Buffer.concat(chunks));
    const path = `${request.method} ${(request.url ?? '').replace('/api/v1/', '')}`;
    if (path.startsWith('GET training_runs/')) {
      const received: Received = { path, model: undefined, body: {} };
      this.received.push(received);
      await this.hold(received);
      return this.#download(request.url ?? '', response);
    }
    const isPass = path.endsWith('forward_backward');
    const json = isPass || body.length === 0 ? {} : JSON.parse(Buffer.from(body).toString());
    const model = isPass ? textOf(fieldsOf(body).get(1)) : json.model_id;
    const received: Received = { path, model, body: json };
    this.received.push(received);
    const fail = (fault: Fault | undefined): boolean => {
      if (fault === 'cut') response.destroy();
      else if (typeof fault === 'number') response.writeHead(fault).end('{"detail":"a fault of the test"}');
      return fault !== undefined;
    };
    await this.hold(received);
    if (fail(this.fault(received, 'before'))) return;
    let answer: { type: string; body: Uint8Array | string };
    try {
      if (this.#hostedKey !== undefined) this.#checkHosted(request, { path, model, json, body });
      const value = isPass ? this.#begin(() => this.#pass(body)) : this.#serve(path, json);
      answer =
        'body' in value
          ? (value as typeof answer)
          : { type: 'application/json', body: JSON.stringify(value) };
    } catch (error) {
      const { status = 400, message } = error as Error & { status?: number };
      response.writeHead(status).end(JSON.stringify({ detail: message }));
      return;
    }
    if (fail(this.fault(received, 'after'))) return;
    if (this.#delayMs !== undefined && path.endsWith('retrieve_future')) await sleep(this.#delayMs);
    response.writeHead(200, { 'content-type': answer.type }).end(answer.body);
  }

  /** Redirects from `archive` to `download`, which packs the files. */
  async #download(url: string, response: ServerResponse): Promise<void> {
    if (url.endsWith('/archive')) {
      response.writeHead(302, { location: url.replace(/archive$/, 'download') }).end();
      return;
    }
    const bias = this.files.get(fileOf(url));
    if (!bias) {
      response.writeHead(404).end('{"detail":"Checkpoint not found"}');
      return;
    }
    const files = Object.entries(this.archiveOf(bias)).map(([path, content]) => ({
      path,
      bytes: content.length,
      content: [content],
    }));
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    await pipeline(Readable.from(encodeTar(files)), createGzip(), response);
  }

  #serve(path: string, body: RequestBody): object {
    const route = path.split(' ')[1] ?? '';
    if (route === 'get_server_capabilities') return { supported_models: [{ model_name: '/models/base' }] };
    if (route === 'create_session') {
      this.#sessions.add(`session_${++this.#count}`);
      return { session_id: `session_${this.#count}` };
    }
    if (route === 'session_heartbeat')
      return this.#sessions.has(body.session_id) ? {} : lost('Session not found', 404);
    if (route === 'create_model') {
      if (!this.#sessions.has(body.session_id)) lost('Session not found', 404);
      const id = `model_${++this.#count}`;
      const begun = this.#begin(() => {
        if (this.#adapters.size + this.others >= this.places)
          throw new Error(`Maximum number of LoRA adapters (${this.places + 1}) reached`);
        this.#adapters.set(id, this.#fresh(new Float64Array(this.#size)));
        return { model_id: id };
      });
      return { ...begun, model_id: id };
    }
    if (route === 'unload_model')
      return this.#begin(() => ({ unloaded: this.#adapters.delete(body.model_id) }));
    if (route === 'retrieve_future') {
      const isHosted = this.#hostedKey !== undefined;
      const result = this.#results.get(body.request_id) ?? lost('Future not found', 404);
      // Of some results, the first question comes too early.
      if (this.#delayMs === undefined && this.#asked.size < 6 && !this.#asked.has(body.request_id)) {
        this.#asked.add(body.request_id);
        if (!isHosted) lost('Timeout waiting for result', 408);
        return { type: 'try_again', request_id: body.request_id, queue_state: 'paused_capacity' };
      }
      if (!('error' in result)) return result;
      return isHosted ? { error: result.error, category: 'user' } : lost(result.error, 400);
    }
    if (route === 'optim_step') return this.#begin(() => this.#step(body.model_id, body.adam_params));
    if (route === 'save_weights')
      return this.#begin(() => {
        const adapter = this.#adapter(body.model_id);
        const name = `tinker://${body.model_id}/weights/${body.path}`;
        this.checkpoints.set(name, structuredClone({ bias: adapter.bias, moments: adapter.moments }));
        return { path: name };
      });
    if (route === 'load_weights')
      return this.#begin(() => {
        const saved = this.checkpoints.get(body.path) ?? lost('Checkpoint not found', 404);
        const adapter = this.#fresh(saved.bias);
        if (body.optimizer) adapter.moments = structuredClone(saved.moments);
        this.#adapters.set(body.model_id, adapter);
        return {};
      });
    if (route === 'save_weights_for_sampler' && body.path !== undefined)
      return this.#begin(() => {
        this.files.set(`${body.model_id}/${body.path}`, this.#adapter(body.model_id).bias.slice());
        return { path: `tinker://${body.model_id}/sampler_weights/${body.path}` };
      });
    if (route === 'save_weights_for_sampler') {
      const session = `sampling_${++this.#count}`;
      this.#samplers.set(session, body.model_id);
      return this.#begin(() => {
        this.#adapter(body.model_id).isTrained = false;
        return { sampling_session_id: session };
      });
    }
    if (route === 'asample') return this.#begin(() => this.#sample(body));
    if (path.startsWith('DELETE')) {
      this.files.delete(fileOf(route));
      return {};
    }
    return lost('Not Found', 404);
  }

  readonly #asked = new Set<string>();
  readonly #numbers = new Map<string, number>();

  #checkHosted(
    { headers }: IncomingMessage,
    request: { path: string; model: string | undefined; json: Partial<RequestBody>; body: Uint8Array },
  ): void {
    const { path, model, json, body } = request;
    if (headers['x-api-key'] !== this.#hostedKey) lost('Unknown API key', 401);
    if (path.endsWith('create_model') && json.model_seq_id === undefined)
      lost('model_seq_id is missing', 422);
    if (model === undefined || path.endsWith('unload_model')) return;
    const isPass = path.endsWith('forward_backward');
    const fields = isPass ? [...protobufFields(body)] : [];
    if (body.length > 5_000_000 || fields.filter(({ field }) => field === 3).length > 1024)
      lost('The pass is too large', 413);
    const number = isPass ? Number(fields.find(({ field }) => field === 2)?.integer) : json.seq_id;
    const expected = (this.#numbers.get(model) ?? 0) + 1;
    if (number !== expected) lost(`request ${number} of ${model} instead of ${expected}`, 400);
    this.#numbers.set(model, expected);
  }

  #begin(work: () => object): { request_id: string } {
    const id = String(++this.#count);
    try {
      const result = work();
      this.#results.set(
        id,
        'body' in result
          ? (result as { type: string; body: Uint8Array })
          : { type: 'application/json', body: JSON.stringify(result) },
      );
    } catch (error) {
      this.#results.set(id, { error: (error as Error).message });
    }
    return { request_id: id };
  }

  #fresh(bias: Float64Array): AdapterState {
    const zeros = () => new Float64Array(this.#size);
    return {
      bias: bias.slice(),
      gradient: zeros(),
      sequences: 0,
      moments: { first: zeros(), second: zeros(), updates: 0 },
      isTrained: false,
    };
  }

  #adapter(id: string): AdapterState {
    return this.#adapters.get(id) ?? lost(`Model ${id} not loaded`, 400);
  }

  #pass(message: Uint8Array): object {
    const fields = [...protobufFields(message)];
    const adapter = this.#adapter(textOf(fields.find(({ field }) => field === 1)));
    const isForwardOnly = fields.some(({ field, integer }) => field === 6 && integer === 1n);
    const rows = fields.filter(({ field }) => field === 3).map(({ bytes }) => readDatum(bytes));
    const outputs = rows.map(({ tokens, target_tokens: targets = [], weights, logprobs, advantages }) => {
      const total = weights?.reduce((sum, weight) => sum + weight, 0) ?? 0;
      return targets.map((target, at) => {
        const row = this.#row(adapter, tokens[at] as number);
        const logprob = row[target] as number;
        const [weight = 0, old = 0, advantage = 0] = [weights?.[at], logprobs?.[at], advantages?.[at]];
        if (!isForwardOnly && weight !== 0) {
          const share = this.#reduction === 'mean' ? weight / total : weight;
          const slope = -Math.exp(logprob - old) * advantage * share;
          const { gradient } = adapter;
          for (let id = 0; id < this.#size; id++)
            gradient[id] =
              (gradient[id] as number) + slope * ((id === target ? 1 : 0) - Math.exp(row[id] as number));
        }
        return logprob;
      });
    });
    if (!isForwardOnly) adapter.sequences += rows.length;
    return { type: 'application/x-protobuf', body: passResult(outputs) };
  }

  #step(id: string, options: RequestBody['adam_params']): object {
    const adapter = this.#adapter(id);
    const { learning_rate: rate, beta1 = 0.9, beta2 = 0.95, eps = 1e-12 } = options;
    const { first, second } = adapter.moments;
    const updates = ++adapter.moments.updates;
    const divisor = this.#reduction === 'mean' ? adapter.sequences : 1;
    let squares = 0;
    for (const [at, sum] of adapter.gradient.entries()) {
      const slope = sum / divisor;
      squares += slope * slope;
      first[at] = beta1 * (first[at] as number) + (1 - beta1) * slope;
      second[at] = beta2 * (second[at] as number) + (1 - beta2) * slope * slope;
      const mean = (first[at] as number) / (1 - beta1 ** updates);
      const square = (second[at] as number) / (1 - beta2 ** updates);
      adapter.bias[at] = (adapter.bias[at] as number) - (rate * mean) / (Math.sqrt(square) + eps);
    }
    adapter.gradient.fill(0);
    this.#rows.delete(adapter.bias);
    adapter.sequences = 0;
    adapter.isTrained ||= rate !== 0;
    return { metrics: { 'skyrl.ai/grad_norm': Math.sqrt(squares), 'skyrl.ai/learning_rate': rate } };
  }

  #sample({ prompt, sampling_params: parameters, num_samples: samples, ...body }: RequestBody): object {
    const { sampling_session_id: session, prompt_logprobs: wanted } = body;
    const adapter = session ? this.#adapter(this.#samplers.get(session) ?? '') : undefined;
    if (adapter?.isTrained) throw new Error('an adapter was sampled that was trained further');
    const tokens = prompt.chunks[0]?.tokens ?? [];
    const prompted = tokens.slice(1).map((token, at) => this.#row(adapter, tokens[at] as number)[token] ?? 0);
    const answer = new ProtobufWriter();
    const seed = parameters.seed ?? ++this.#count;
    if (!(seed >= 0 && seed + samples <= 2 ** 31)) throw new Error(`seed ${seed} is not one of 31 bits`);
    for (let index = 0; index < samples; index++)
      answer.message(1, this.#reply(adapter, tokens.at(-1) as number, { ...parameters, seed: seed + index }));
    if (wanted) answer.bytes(2, bytesOf(Float32Array.from(prompted)));
    return { type: 'application/x-protobuf', body: answer.finish() };
  }

  #reply(
    adapter: AdapterState | undefined,
    previous: number,
    parameters: RequestBody['sampling_params'] & { seed: number },
  ): ProtobufWriter {
    const reply: number[] = [];
    const logprobs: number[] = [];
    let state = parameters.seed + 1;
    while (reply.length < parameters.max_tokens && !parameters.stop?.includes(reply.at(-1) ?? -1)) {
      const row = this.#row(adapter, reply.at(-1) ?? previous);
      state = (state * 48_271) % 2_147_483_647;
      let left = state / 2_147_483_647;
      let token = row.findIndex((logprob) => {
        left -= Math.exp(logprob);
        return left < 0;
      });
      if (token < 0) token = this.#size - 1;
      if (parameters.temperature === 0) token = row.indexOf(Math.max(...row));
      reply.push(token);
      logprobs.push(row[token] as number);
    }
    const isStopped = parameters.stop?.includes(reply.at(-1) ?? -1) === true;
    const sequence = new ProtobufWriter().integer(1, isStopped ? 0 : 1);
    return sequence.bytes(2, bytesOf(Int32Array.from(reply))).bytes(3, bytesOf(Float32Array.from(logprobs)));
  }
}

function lost(message: string, status: number): never {
  throw Object.assign(new Error(message), { status });
}

export function logSoftmax(row: Float64Array): Float64Array {
  const most = Math.max(...row);
  const total = Math.log(row.reduce((sum, value) => sum + Math.exp(value - most), 0)) + most;
  return row.map((value) => value - total);
}

const bytesOf = (array: Int32Array | Float32Array | BigInt64Array) => new Uint8Array(array.buffer);
const fieldsOf = (message: Uint8Array) =>
  new Map([...protobufFields(message)].map((field) => [field.field, field]));
const textOf = (field: ProtobufField | undefined) => Buffer.from(field?.bytes ?? []).toString();

/** The lists of a `Datum` by name, and its `tokens`. */
function readDatum(message: Uint8Array): Record<string, number[]> & { tokens: number[] } {
  const lists: Record<string, number[]> & { tokens: number[] } = { tokens: [] };
  for (const { field, bytes } of protobufFields(message)) {
    const inner = fieldsOf(bytes);
    if (field === 1) {
      const text = fieldsOf(inner.get(1)?.bytes ?? new Uint8Array());
      lists.tokens = [...new Int32Array((text.get(1)?.bytes ?? new Uint8Array()).slice().buffer)];
    } else if (field === 2) {
      const tensor = fieldsOf(inner.get(2)?.bytes ?? new Uint8Array());
      const data = (tensor.get(1)?.bytes ?? new Uint8Array()).slice().buffer;
      const isInteger = tensor.get(3)?.integer === 2n;
      lists[textOf(inner.get(1))] = isInteger
        ? [...new BigInt64Array(data)].map(Number)
        : [...new Float32Array(data)];
    }
  }
  return lists;
}

/** The message `ForwardBackwardOutput` with the log-probabilities of each sequence. */
function passResult(outputs: number[][]): Uint8Array {
  const offsets = [0];
  for (const row of outputs) offsets.push((offsets.at(-1) as number) + row.length * 4);
  const batched = new ProtobufWriter()
    .bytes(1, bytesOf(Float32Array.from(outputs.flat())))
    .bytes(2, bytesOf(BigInt64Array.from(offsets, BigInt)))
    .integer(3, 1);
  const record = new ProtobufWriter().message(
    2,
    new ProtobufWriter().text(1, 'logprobs').message(2, batched),
  );
  return new ProtobufWriter().message(2, record.integer(3, outputs.length)).finish();
}
