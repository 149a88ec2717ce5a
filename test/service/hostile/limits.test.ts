import { request } from 'node:http';
import { describe, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { checkedParts, readGroups } from '../../../src/service/jobs/read-groups.ts';
import { group, start, trajectory } from '../harness.ts';

/** The status of a request with these raw bytes. */
const statusOf = (url: string, { path, headers }: { path: string; headers: Record<string, string> }) =>
  new Promise<number>((resolve, reject) => {
    const sent = request(new URL(url), { path, headers }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode ?? 0));
    });
    sent.on('error', reject);
    sent.end();
  });

describe('a value that is too large is refused with its field, its size and the limit', () => {
  it.each<[what: string, fields: object, field: string, says: RegExp]>([
    [
      'messages',
      { messages: Array(8193).fill({ role: 'user', content: '' }) },
      'body.messages',
      /8193 elements; the maximum is 8192/,
    ],
    [
      'parts of a content',
      { messages: [{ role: 'user', content: Array(4097).fill({ type: 'text', text: '' }) }] },
      'body.messages.0.content',
      /4097 elements; the maximum is 4096/,
    ],
    [
      'a call',
      { messages: [{ role: 'tool', content: '', tool_call_id: 'a'.repeat(1025) }] },
      'body.messages.0.tool_call_id',
      /1025 characters; the maximum is 1024/,
    ],
    [
      'parameters',
      {
        tools: [{ type: 'function', function: { name: 'a', parameters: { title: 'a'.repeat(262_144) } } }],
      },
      'body.tools.0.function.parameters',
      /characters of JSON; the maximum is 262144/,
    ],
    [
      'metadata',
      { metadata: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [at, ''])) },
      'body.metadata',
      /65 entries; the maximum is 64/,
    ],
    [
      'a grammar',
      { structured_outputs: { regex: 'a'.repeat(65_537) } },
      'body.structured_outputs.regex',
      /65537 characters; the maximum is 65536/,
    ],
    [
      'a schema as text',
      { structured_outputs: { json: `{"not":${'['.repeat(2000)}${']'.repeat(2000)}}` } },
      'body.structured_outputs.json',
      /more than 1000 levels of nesting/,
    ],
    [
      'alternatives',
      { logprobs: true, top_logprobs: 20, n: 128, max_tokens: 1000 },
      'body.top_logprobs',
      /the limit is 524288/,
    ],
    [
      'variables',
      { chat_template_kwargs: Object.fromEntries(Array.from({ length: 257 }, (_, at) => [`a${at}`, 1])) },
      'body.chat_template_kwargs',
      /257 entries; the maximum is 256/,
    ],
  ])('%s', async (_what, fields, field, says) => {
    const { chat } = await start();
    const { status, body } = await chat(fields);
    const [{ loc, msg }] = body.detail;
    expect([status, loc.join('.')]).toEqual([422, field]);
    expect(msg).toMatch(says);
  });

  it('nesting, names and values of the JSON itself', async () => {
    const { call } = await start();
    for (const body of [
      `{"messages":[],"metadata":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}`,
      `{"messages":[]${Array.from({ length: 300_000 }, (_, at) => `,"a${at}":1`).join('')}}`,
      `{"messages":[${'0,'.repeat(4_300_000)}0]}`,
    ]) {
      const answer = await call('POST', '/v1/chat/completions', body);
      expect(answer.status).toBe(422);
      expect(answer.body.detail[0].msg).toMatch(/^The JSON has more than \d+/);
    }
  });

  it('a prompt beyond every context, before it is rendered', async () => {
    const { chat } = await start();
    // Tokenizing so many spaces once took 90 seconds.
    for (const fields of [{}, { truncate_prompt_tokens: 5 }, { chat_template: '{{ messages[0].role }}' }]) {
      const { status, body } = await chat({
        ...fields,
        messages: [{ role: 'user', content: ' '.repeat(12 * 2 ** 20) }],
      });
      expect([status, body.error.code]).toEqual([400, 'context_length_exceeded']);
      expect(body.detail).toMatch(/12582916 characters; .* allows at most \d+/);
    }
  });

  it('at most a hundred issues, and the beginning of a long value', async () => {
    const { chat } = await start();
    const unknown = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`a${at}`, 'b'.repeat(500)]));
    const many = await chat(unknown);
    expect([many.status, many.body.detail.length]).toEqual([422, 100]);
    const long = await chat({ [`name ${'n'.repeat(1_000_000)}`]: 'v'.repeat(1_000_000), user: 5 });
    expect(long.status).toBe(422);
    expect(JSON.stringify(long.body).length).toBeLessThan(10_000);
    const wrong = await chat({
      messages: Array(400).fill({ role: 'user', content: [0, 0, 0] }),
    });
    expect([wrong.status, wrong.body.detail.length]).toEqual([422, 100]);
    const one = await chat({ messages: [{ role: 'user', content: Array(4096).fill({ type: 'text' }) }] });
    expect([one.status, one.body.detail.length]).toEqual([422, 1]);
  });

  it('null means absent for an unknown field in thousands of messages', async () => {
    const { chat } = await start();
    const { status } = await chat({
      messages: Array(2000).fill({ role: 'user', content: '', weight: null, other: null }),
    });
    expect(status).not.toBe(422);
  });

  it('half a million unknown fields of a trajectory, of which the first are named', () => {
    const unknown = Object.fromEntries(Array.from({ length: 16_000 }, (_, index) => [`f${index}`, 1]));
    const one = trajectory(1, [1]);
    const { messages_and_choices } = one;
    const additional_histories = Array.from({ length: 36 }, () => ({ messages_and_choices, ...unknown }));
    const groups = [{ value: group({ ...one, additional_histories }), path: ['trajectory_groups', 0] }];
    expect(() => [...checkedParts(readGroups(groups))]).toThrow(
      expect.objectContaining({
        issues: Array.from({ length: 100 }, (_, index) =>
          expect.objectContaining({ type: 'extra_forbidden', loc: expect.arrayContaining([`f${index}`]) }),
        ),
      }),
    );
  });

  it('headers and URLs beyond 16 KiB', async () => {
    const { service } = await start();
    const headers = { authorization: `Bearer ${service.apiKey}` };
    const requestTo = (path: string, more = {}) =>
      statusOf(service.url, { path, headers: { ...headers, ...more } });
    expect(await requestTo('/v1/health')).toBe(200);
    expect(await requestTo(`/v1/health?${'a'.repeat(20_000)}`)).toBe(431);
    expect(await requestTo('/v1/health', { 'x-long': 'a'.repeat(20_000) })).toBe(431);
    expect(await requestTo(`/v1/preview/models?${'after=a&'.repeat(1500)}`)).toBe(422);
  });
});

describe('a slow constraint', () => {
  it('is compiled in another thread while the service answers requests', async () => {
    const engine = await createEmbeddedEngine({ threads: 1 });
    try {
      const [base] = engine.baseModels;
      if (!base) throw new Error('there is no base model');
      const heavy = {
        anyOf: Array.from({ length: 3000 }, (_, at) => ({ type: 'string', pattern: `^a${at}[^b-z]+$` })),
      };
      let turns = 0;
      let checked = false;
      const check = engine
        .checkConstraint(base.id, {
          grammar: { type: 'json_schema', schema: heavy },
        })
        .catch(() => {})
        .finally(() => {
          checked = true;
        });
      for (; !checked; turns++) await new Promise(setImmediate);
      await check;
      // In this thread it would block a single tick.
      expect(turns).toBeGreaterThan(10);
    } finally {
      await engine.close();
    }
  });
});
