import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text as readAll } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { chatCompletionChunkSchema } from '../../src/contract/index.ts';
import type { GenerateRequest, Generation, GenerationDelta } from '../../src/engines/engine.ts';
import { plainSampling } from '../../src/learning/index.ts';
import { ReplyUpdates } from '../../src/service/inference/reply/reply-updates.ts';
import { door, ScriptedEngine, special, tokensOf } from '../support/scripted-engine.ts';
import { frames, type Json, start } from './harness.ts';

const tools = [{ type: 'function', function: { name: 'refund' } }];

async function streamed(engine: ScriptedEngine, fields: object) {
  const { raw } = await start({ engine });
  const response = await raw('POST', '/v1/chat/completions', {
    messages: [{ role: 'user', content: 'hi' }],
    stream: true,
    ...fields,
  });
  const text = await response.text();
  const chunks = frames(text);
  return { response, text, chunks, choices: chunks.flatMap((chunk: Json) => chunk.choices) };
}

const join = (choices: Json[], index = 0) =>
  choices
    .filter((choice) => choice.index === index)
    .map((choice) => choice.delta.content ?? '')
    .join('');

test('a stream sends the role, the text at character boundaries, the finish reason, the usage and DONE', async () => {
  const engine = new ScriptedEngine();
  engine.replies = [{ tokens: tokensOf('hé€😀!', special.end) }];
  const { response, text, chunks, choices } = await streamed(engine, {
    stream_options: { include_usage: true },
    return_token_ids: true,
    logprobs: true,
  });
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  for (const chunk of chunks) chatCompletionChunkSchema.parse(chunk);
  expect(choices[0].delta).toEqual({ role: 'assistant', content: '', refusal: null });
  expect(join(choices)).toBe('hé€😀!');
  for (const { delta } of choices) expect(delta.content ?? '').not.toContain('\uFFFD');
  expect(chunks.filter((chunk: Json) => 'prompt_token_ids' in chunk)).toEqual([chunks[0]]);
  expect(choices.flatMap((choice: Json) => choice.token_ids ?? [])).toEqual(tokensOf('hé€😀!', special.end));
  expect(choices.flatMap((choice: Json) => choice.logprobs?.content ?? [])).toHaveLength(12);
  const last = choices.at(-1);
  expect(last).toMatchObject({
    finish_reason: 'stop',
    delta: {},
    sampling: { temperature: 1, constraint: null },
  });
  expect(choices.slice(0, -1).every((choice: Json) => choice.finish_reason === null)).toBe(true);
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 12, prompt_tokens: 5 } });
});

test('calls are deltas: name and id first, then arguments', async () => {
  const engine = new ScriptedEngine();
  engine.replies = [
    {
      tokens: tokensOf(
        'so',
        special.call,
        'refund{"a":1}',
        special.callEnd,
        special.call,
        'refund{}',
        special.callEnd,
        special.end,
      ),
    },
  ];
  const { choices } = await streamed(engine, { tools });
  const deltas = choices.flatMap((choice: Json) => choice.delta.tool_calls ?? []);
  expect(join(choices)).toBe('so');
  expect(deltas.filter((delta: Json) => 'id' in delta)).toMatchObject([
    { index: 0, type: 'function', function: { name: 'refund' } },
    { index: 1, type: 'function', function: { name: 'refund' } },
  ]);
  for (const [index, text] of ['{"a":1}', '{}'].entries())
    expect(
      deltas
        .filter((delta: Json) => delta.index === index)
        .map((delta: Json) => delta.function.arguments)
        .join(''),
    ).toBe(text);
  expect(choices.at(-1).finish_reason).toBe('tool_calls');
});

test('text that may begin a stop string is held back; the stop string itself is never sent', async () => {
  const engine = new ScriptedEngine();
  engine.replies = [{ tokens: tokensOf('one STone STOP'), stop: 'STOP' }];
  const { choices } = await streamed(engine, { stop: ['STOP'] });
  expect(join(choices)).toBe('one STone ');
  expect(choices.at(-1)).toMatchObject({ finish_reason: 'stop', stop_reason: null, stop_string: 'STOP' });
});

test('several choices stream in parallel', async () => {
  const engine = new ScriptedEngine();
  engine.replies = [{ tokens: tokensOf('first', special.end) }, { tokens: tokensOf('second', special.end) }];
  const { choices } = await streamed(engine, { n: 2 });
  expect([join(choices, 0), join(choices, 1)]).toEqual(['first', 'second']);
});

test('a failure within a stream is an error chunk without internal details', async () => {
  const engine = new ScriptedEngine();
  engine.failGeneration = new Error('secret');
  const { text, chunks } = await streamed(engine, {});
  expect(chunks.at(-1).error).toMatchObject({ type: 'server_error' });
  expect(text).not.toContain('secret');
});

test('a client that disconnects stops its generation', async () => {
  const engine = new ScriptedEngine();
  const { service } = await start({ engine });
  const held = door();
  engine.hold = held.wait;
  const leave = new AbortController();
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer test-key' },
    body: JSON.stringify({ stream: true, messages: [{ role: 'user', content: 'hi' }] }),
    signal: leave.signal,
  });
  expect(response.status).toBe(200);
  await held.reached;
  const stopped = new Promise((resolve) => engine.requests[0]?.signal?.addEventListener('abort', resolve));
  leave.abort();
  await stopped;
});

test('reasoning streams before the content, in both of its fields', async () => {
  const engine = new ScriptedEngine();
  engine.replies = [{ tokens: tokensOf(special.think, 'hm', special.answer, 'so', special.end) }];
  const { chunks, choices } = await streamed(engine, { reasoning_effort: 'low' });
  for (const chunk of chunks) chatCompletionChunkSchema.parse(chunk);
  const deltas = choices.map((choice: Json) => choice.delta);
  expect(deltas.map(({ reasoning }: Json) => reasoning ?? '').join('')).toBe('hm');
  expect(deltas.map(({ reasoning_content }: Json) => reasoning_content ?? '').join('')).toBe('hm');
  expect(join(choices)).toBe('so');
  const hidden = await streamed(engine, { reasoning_effort: 'low', include_reasoning: false });
  expect(hidden.text).not.toContain('reasoning');
  expect(join(hidden.choices)).toBe('so');
});

test('only the first chunk has the prompt', async () => {
  const engine = new ScriptedEngine();
  const { chunks } = await streamed(engine, { n: 2, prompt_logprobs: 0, return_token_ids: true });
  for (const chunk of chunks) chatCompletionChunkSchema.parse(chunk);
  const prompt = engine.requests[0]?.prompt;
  expect(chunks[0].prompt_token_ids).toEqual(prompt);
  expect(chunks[0].prompt_logprobs).toHaveLength(prompt?.length ?? 0);
  expect(chunks[0].prompt_logprobs[0]).toBeNull();
  for (const chunk of chunks.slice(1)) {
    expect(chunk).not.toHaveProperty('prompt_token_ids');
    expect(chunk).not.toHaveProperty('prompt_logprobs');
  }
});

test('a choice with its ids ends with its prompt, and is marked if that is its own', async () => {
  const withIds = { add_special_tokens: true, return_token_ids: true };
  const { chunks, choices } = await streamed(new ScriptedEngine(), withIds);
  expect(choices.at(-1)).toMatchObject({
    prompt_token_ids: chunks[0].prompt_token_ids,
    sampling: { own_prompt: true },
  });
  const plain = await streamed(new ScriptedEngine(), { return_token_ids: true });
  expect(plain.choices.at(-1)).toMatchObject({ prompt_token_ids: plain.chunks[0].prompt_token_ids });
  expect(plain.choices.at(-1).sampling).not.toHaveProperty('own_prompt');
});

test('streamed logprobs contain ids on request', async () => {
  const { choices } = await streamed(new ScriptedEngine(), {
    logprobs: true,
    return_tokens_as_token_ids: true,
  });
  const logprobEntries = choices.flatMap((choice: Json) => choice.logprobs?.content ?? []);
  expect(logprobEntries.map(({ token }: Json) => token)).toEqual(
    tokensOf('hello', special.end).map((token) => `token_id:${token}`),
  );
});

test('continuous usage grows with the chunks; without it only the last chunk has one', async () => {
  const usages = async (options: object) =>
    (await streamed(new ScriptedEngine(), { n: 2, stream_options: options })).chunks.map(
      ({ usage }: Json) => usage?.completion_tokens ?? usage,
    );
  const growing = await usages({ continuous_usage_stats: true });
  expect(growing[0]).toBe(0);
  expect(growing.at(-1)).toBe(12);
  expect(growing).toEqual([...growing].sort((a, b) => a - b));
  expect(new Set(growing).size).toBeGreaterThan(2);
  const last = await usages({ include_usage: true });
  expect(last.at(-1)).toBe(12);
  expect(last.slice(0, -1).every((usage: unknown) => usage === null)).toBe(true);
  expect(new Set(await usages({ include_usage: false }))).toEqual(new Set([undefined]));
});

/** An engine whose replies come from a function. */
const engineThat = (
  reply: (onDelta: (delta: GenerationDelta) => void) => Promise<Generation>,
): ScriptedEngine =>
  Object.assign(new ScriptedEngine(), {
    generate: (_: GenerateRequest, onDelta: (delta: GenerationDelta) => void) => reply(onDelta),
  });

const sampled = {
  ...{
    weights: { baseModel: 'scripted-tiny', folder: null },
    prompt: [1],
    sampling: plainSampling,
    maxTokens: 9,
  },
  ...{ stopStrings: [], stopTokens: [], constraint: null, topLogprobs: 0, priority: 0, cacheSalt: null },
};

test('unread chunks are merged for each choice, and nothing is lost', async () => {
  const deltaOf = (token: number): GenerationDelta => ({
    tokens: [token],
    logprobs: [-token],
    topLogprobs: [[{ token, logprob: -token }]],
  });
  const generation: Generation = {
    ...{ tokens: [1, 2, 3, 4], logprobs: [-1, -2, -3, -4], topLogprobs: [1, 2, 3, 4].map(() => []) },
    ...{ finishReason: 'stop', stop: null, cachedTokens: 0 },
  };
  const updates = new ReplyUpdates(
    engineThat(async (onDelta) => {
      for (const token of [1, 2, 3]) onDelta(deltaOf(token));
      return generation;
    }),
    { request: { n: 2 }, generation: sampled },
    new AbortController().signal,
  );
  await new Promise(setImmediate);
  const taken = [];
  for await (const update of updates.all()) taken.push(update);
  const merged = {
    tokens: [1, 2, 3, 4],
    logprobs: [-1, -2, -3, -4],
    topLogprobs: [...[1, 2, 3].map((token) => [{ token, logprob: -token }]), []],
  };
  expect(taken).toEqual([
    { index: 0, delta: merged, end: generation },
    { index: 1, delta: merged, end: generation },
  ]);
});

test('the first delta is sent at once, the next ones together after an interval or at the end', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const ended = Promise.withResolvers<void>();
  let sample: (token: number) => void = () => {};
  const tokens: number[] = [];
  const updates = new ReplyUpdates(
    engineThat(async (onDelta) => {
      sample = (token) => {
        tokens.push(token);
        onDelta({ tokens: [token], logprobs: [0], topLogprobs: [[]] });
      };
      await ended.promise;
      const rest = { logprobs: tokens.map(() => 0), topLogprobs: tokens.map(() => []) };
      return { tokens, ...rest, finishReason: 'stop', stop: null, cachedTokens: 0 };
    }),
    { request: {}, generation: sampled },
    new AbortController().signal,
  );
  const taken: unknown[] = [];
  const reading = (async () => {
    for await (const { delta, end } of updates.all())
      taken.push(...(delta ? [delta.tokens] : []), ...(end ? ['end'] : []));
  })();
  for (const token of [1, 2, 3]) {
    sample(token);
    await new Promise(setImmediate);
  }
  expect(taken).toEqual([[1]]);
  vi.advanceTimersByTime(50);
  await new Promise(setImmediate);
  expect(taken).toEqual([[1], [2, 3]]);
  sample(4);
  await new Promise(setImmediate);
  ended.resolve();
  await reading;
  expect(taken).toEqual([[1], [2, 3], [4], 'end']);
});

test('a slow reader gets few large chunks with the complete data', async () => {
  let finished = 0;
  class CountingEngine extends ScriptedEngine {
    override async generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void) {
      const generation = await super.generate(request, onDelta);
      finished++;
      return generation;
    }
  }
  const engine = new CountingEngine();
  const tokens = tokensOf('x'.repeat(500), special.end);
  engine.replies = [{ tokens }];
  const { service } = await start({ engine });
  const n = 48;
  const asking = httpRequest(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer test-key' },
  });
  asking.end(
    JSON.stringify({
      ...{ messages: [{ role: 'user', content: 'hi' }], n, stream: true, return_token_ids: true },
      ...{ logprobs: true, top_logprobs: 1 },
    }),
  );
  const response = await new Promise<IncomingMessage>((resolve) => asking.once('response', resolve));
  // The client does not read until everything is sampled.
  await expect.poll(() => finished).toBe(n);
  const choices = frames(await readAll(response)).flatMap((chunk: Json) => chunk.choices);
  for (let index = 0; index < n; index++) {
    const own = choices.filter((choice: Json) => choice.index === index);
    expect(own.flatMap((choice: Json) => choice.token_ids ?? [])).toEqual(tokens);
    expect(join(own, index)).toBe('x'.repeat(500));
  }
  expect(choices.length).toBeLessThan((n * tokens.length) / 2);
});
