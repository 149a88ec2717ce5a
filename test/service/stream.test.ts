import { expect, test } from 'vitest';
import { chatCompletionChunkSchema } from '../../src/contract/index.ts';
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

test('a stream is the role, the text on character borders, the finish, the usage, and DONE', async () => {
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
  expect(choices[0].delta).toEqual({ role: 'assistant', content: '' });
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

test('calls come as deltas: name and id first, then arguments', async () => {
  const engine = new ScriptedEngine();
  engine.replies = [
    { tokens: tokensOf('so', special.call, 'refund{"a":1}', special.call, 'refund{}', special.end) },
  ];
  const { choices } = await streamed(engine, { tools });
  const deltas = choices.flatMap((choice: Json) => choice.delta.tool_calls ?? []);
  expect(join(choices)).toBe('so');
  expect(deltas.filter((delta: Json) => 'id' in delta)).toMatchObject([
    { index: 0, type: 'function', function: { name: 'refund', arguments: '{' } },
    { index: 1, type: 'function', function: { name: 'refund', arguments: '{' } },
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

test('text that may begin a stop string waits; the stop string itself never goes out', async () => {
  const engine = new ScriptedEngine();
  engine.replies = [{ tokens: tokensOf('one STone STOP'), stop: 'STOP' }];
  const { choices } = await streamed(engine, { stop: ['STOP'] });
  expect(join(choices)).toBe('one STone ');
  expect(choices.at(-1)).toMatchObject({ finish_reason: 'stop', stop_reason: 'STOP' });
});

test('several choices stream side by side', async () => {
  const engine = new ScriptedEngine();
  engine.replies = [{ tokens: tokensOf('first', special.end) }, { tokens: tokensOf('second', special.end) }];
  const { choices } = await streamed(engine, { n: 2 });
  expect([join(choices, 0), join(choices, 1)]).toEqual(['first', 'second']);
});

test('a failure in the middle is an error chunk without the inside of the service', async () => {
  const engine = new ScriptedEngine();
  engine.failGeneration = new Error('secret');
  const { text, chunks } = await streamed(engine, {});
  expect(chunks.at(-1).error).toMatchObject({ type: 'server_error' });
  expect(text).not.toContain('secret');
});

test('a client that goes away stops its generation', async () => {
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
