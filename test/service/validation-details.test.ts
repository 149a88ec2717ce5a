import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { tokensOf } from '../support/scripted-engine.ts';
import { problemInDetails } from '../support/validation-details.ts';
import { group, type Json, start, trajectory } from './harness.ts';

const sampled = tokensOf('yes');
const id = '0e0b8a55-52a5-4b6b-a94c-7d5b9b4a4a10';
const tool = {
  type: 'function',
  function: { name: 'track', parameters: { type: 'object', properties: {} } },
};
const answered = trajectory(1, sampled, { tools: [tool], metrics: { turns: 2 }, logs: ['one'] });
const groups = [group(answered, trajectory(0, sampled)), group(trajectory(1, sampled))];
const chat = {
  messages: [
    { role: 'system', content: 'short' },
    { role: 'user', content: [{ type: 'text', text: 'where is it' }] },
    {
      role: 'assistant',
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'track', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'a', content: 'here' },
  ],
  tools: [tool],
  stop: ['.', '!'],
  logit_bias: { 5: 1 },
  response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } },
};

const requests: [name: string, path: string, body: Json][] = [
  ['a chat', '/v1/chat/completions', chat],
  ['a model', '/v1/preview/models', { project: 'desk', name: 'agent', base_model: 'scripted-tiny' }],
  ['a log', '/v1/preview/models/{model_id}/log', { split: 'train', trajectory_groups: groups }],
  [
    'an RL job',
    '/v1/preview/training-jobs',
    { model_id: id, trajectory_groups: groups, experimental_config: { epsilon: 0.2, kl_penalty_coef: 0.1 } },
  ],
  [
    'an SFT job',
    '/v1/preview/sft-training-jobs',
    { model_id: id, training_data_url: 'upload:x', config: { learning_rate: [0.1, 0.2] } },
  ],
];

/** Every path in a value, the value itself first. */
function pathsIn(value: unknown, at: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== 'object' || value === null) return [at];
  const inner: [string | number, unknown][] = Array.isArray(value)
    ? [...value.entries()]
    : Object.entries(value);
  return [at, ...inner.flatMap(([part, item]) => pathsIn(item, [...at, part]))];
}

const junk = fc.oneof(
  fc.constantFrom(null, true, -1, 1e300, '', 'x', [], {}, [{}], [[]], { type: 'x' }, { role: 'user' }),
  fc.constantFrom('long '.repeat(1000), Array(2000).fill('x'), {
    role: 'user',
    content: Array(2000).fill(1),
  }),
  fc.jsonValue({ maxDepth: 2 }),
);
const change = fc.oneof(
  fc.record({ kind: fc.constant('remove' as const), at: fc.nat() }),
  fc.record({ kind: fc.constant('replace' as const), at: fc.nat(), value: junk }),
  fc.record({
    kind: fc.constant('add' as const),
    at: fc.nat(),
    name: fc.constantFrom('0', 'x', '__proto__', 'length'),
    value: junk,
  }),
);
type Change = typeof change extends fc.Arbitrary<infer Value> ? Value : never;

function changed(body: Json, { at, ...rest }: Change): Json {
  const paths = pathsIn(body);
  const copy = structuredClone(body);
  const path = paths[at % paths.length] ?? [];
  const last = path.at(-1);
  const parent = path.slice(0, -1).reduce((value: Json, part) => value[part], copy);
  if (rest.kind === 'add') {
    const target = path.reduce((value: Json, part) => value[part], copy);
    if (typeof target !== 'object' || target === null) return copy;
    Object.defineProperty(target, Array.isArray(target) ? target.length : rest.name, {
      ...{ value: rest.value, enumerable: true, configurable: true, writable: true },
    });
    return copy;
  }
  if (last === undefined) return rest.kind === 'replace' ? rest.value : {};
  if (rest.kind === 'replace') parent[last] = rest.value;
  else if (Array.isArray(parent)) parent.splice(Number(last), 1);
  else delete parent[last];
  return copy;
}

/** White space that makes a small body large enough to be read in pieces. */
const padding = ' '.repeat(1024 ** 2 + 1);

describe('each issue of a request has its path, message and value', () => {
  test.each(requests)('%s with something wrong in it', async (_, path, body) => {
    const { call, createModel } = await start();
    const { id } = await createModel({ name: 'logged' });
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
        const broken = changes.reduce(changed, body);
        const { status, body: answer } = await call(
          'POST',
          path.replace('{model_id}', id),
          JSON.stringify(broken),
        );
        expect(status).toBeLessThan(500);
        if (status === 422) refused++;
        expect(problemInDetails(answer, JSON.parse(JSON.stringify(broken)))).toBeNull();
      }),
      { numRuns: 120, seed: 5 },
    );
    expect(refused).toBeGreaterThan(40);
  });

  test('the same for a body that is read in pieces', { tags: ['long'] }, async () => {
    const { call } = await start();
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 2 }), async (changes) => {
        const broken = changes.reduce(changed, requests[3]?.[2]);
        const text = padding + JSON.stringify(broken);
        const { status, body: answer } = await call('POST', '/v1/preview/training-jobs', text);
        expect(status).toBeLessThan(500);
        expect(problemInDetails(answer, JSON.parse(text))).toBeNull();
      }),
      { numRuns: 40, seed: 6 },
    );
  });

  test('a missing field is named, and the object without it is shown', async () => {
    const { call, createModel } = await start();
    const model = await createModel();
    const detailOf = async (path: string, body: unknown) => (await call('POST', path, body)).body.detail;
    const message = { content: 'hello' };
    expect(await detailOf('/v1/chat/completions', { messages: [message] })).toEqual([
      {
        loc: ['body', 'messages', '0', 'role'],
        msg: 'Field required',
        type: 'missing',
        ctx: {},
        input: message,
      },
    ]);
    const request = { messages: [{ role: 'user', ...message }], tools: [{}] };
    expect(await detailOf('/v1/chat/completions', request)).toEqual([
      { loc: ['body', 'tools', '0', 'type'], msg: 'Field required', type: 'missing', ctx: {}, input: {} },
      { loc: ['body', 'tools', '0', 'function'], msg: 'Field required', type: 'missing', ctx: {}, input: {} },
    ]);
    expect(await detailOf(`/v1/preview/models/${model.id}/log`, { trajectory_groups: groups })).toEqual([
      {
        ...{ loc: ['body', 'split'], msg: 'Field required', type: 'missing', ctx: {} },
        input: { trajectory_groups: ['…'] },
      },
    ]);
  });

  test('a long value is shown with its beginning, or as a placeholder of its type', async () => {
    const { chat } = await start();
    const inputOf = async (fields: object) => (await chat(fields)).body.detail[0].input;
    expect(await inputOf({ seed: 'x'.repeat(5000) })).toBe(`${'x'.repeat(1000)}…`);
    expect(await inputOf({ messages: Array(2000).fill(5), seed: null })).toBe(5);
    expect(await inputOf({ seed: Array(2000).fill(5) })).toEqual(['…']);
    const seed = { name: 'a'.repeat(100), list: Array(1000).fill(1), short: [1, 2] };
    expect(await inputOf({ seed })).toEqual({ '…': '…' });
    expect(await inputOf({ seed: { short: [1, 2] } })).toEqual({ short: [1, 2] });
  });
});
