import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { evaluate } from 'martingale';
import { type RecordedScenario, recordedScenario } from 'martingale/records';
import { describe, expect, it } from 'vitest';
import { readScenarios } from '../../../src/formats/conversations/read-scenarios.ts';
import environment, { knows, scenarios } from '../../cli/environments/sums.ts';
import { temporaryFolder } from '../../support/files.ts';

const fixtures = join(import.meta.dirname, 'fixtures');

const read = (sources: string | string[], options: Partial<Parameters<typeof readScenarios>[1]> = {}) =>
  readScenarios([sources].flat(), { validation: 0, ...options });

const recorded = (some: readonly unknown[]): RecordedScenario[] => recordedScenario.array().parse(some);

/** Writes lines into a new file. */
async function linesIn(...values: (object | string)[]): Promise<string> {
  const file = join(await temporaryFolder(), 'log.jsonl');
  const lines = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  await writeFile(file, `${lines.join('\n')}\n`);
  return file;
}

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });
const cups = [{ role: 'system', content: 'You are a shop.' }, user('How many cups do you have?')];
const stock = expect.objectContaining({
  type: 'function',
  function: expect.objectContaining({ name: 'stock', description: 'How many are left.' }),
});
const call = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'call-1', type: 'function', function: { name: 'stock', arguments: '{"item":"cup"}' } }],
};
const withoutIds = { ...call, tool_calls: [{ ...call.tool_calls[0], id: '' }] };
const [stockCall] = call.tool_calls;
const spaced = {
  ...call,
  tool_calls: [{ ...stockCall, function: { name: 'stock', arguments: '{"item": "cup"}' } }],
};
const thoughtful = { ...call, reasoning: 'I look it up.' };
const noMessages = 'a model call without its messages: recording them is switched off, or they are in logs';
const content = (type: string) => `a message has content of type "${type}"`;

describe('traces of', () => {
  it.each([
    ['ai-sdk-gen-ai', 'mock-1', [stock], thoughtful, [noMessages, content('blob')]],
    ['ai-sdk-legacy', 'mock-1', [stock], thoughtful, [noMessages, content('file')]],
    ['openinference-openai', 'gpt-mock', [stock], call, [content('image')]],
    ['traceloop-openai', 'gpt-mock', [stock], call, [content('blob')]],
    ['traceloop-openai-0.14', 'gpt-mock', [stock], withoutIds, [content('image_url')]],
    ['azure-ai-inference', 'gpt-mock', undefined, call, []],
    ['openinference-langchain', undefined, undefined, spaced, []],
  ])(
    '%s give each opening once, with its tools and its reply',
    async (name, model, tools, reply, reasons) => {
      const { train, report } = await read(join(fixtures, `${name}.json`));
      expect(train).toEqual([
        expect.objectContaining({
          messages: cups,
          reply,
          ...(model ? { model } : {}),
          ...(tools ? { tools } : {}),
        }),
        expect.objectContaining({ messages: [user('hi')], reply: assistant('Hello!') }),
      ]);
      expect(recorded(train).map(({ tools: offered }) => offered?.length)).toEqual([
        tools?.length,
        undefined,
      ]);
      for (const { time } of recorded(train)) expect(time).toMatch(/^2026-11-2[78]T/);
      expect(report.unread.map(({ reason }) => reason)).toEqual(reasons);
      expect(report.unread.map(({ count, first }) => [count, first])).toEqual(
        reasons.map(() => [1, join(fixtures, `${name}.json`)]),
      );
    },
  );

  it('langfuse are grouped by their session', async () => {
    const { train, report } = await read(join(fixtures, 'langfuse.json'));
    expect(train).toMatchObject([
      { messages: cups, reply: assistant('Three.'), group: 'session-7' },
      { messages: [user('Say hello.')], reply: assistant('Hello.'), group: 'session-7' },
    ]);
    expect(report).toMatchObject({
      read: 3,
      unread: [{ reason: 'an input that holds no messages', count: 1 }],
    });
  });

  it('pydantic-ai are grouped by their conversation, whose tool results are messages of the user', async () => {
    const { train, report } = await read(join(fixtures, 'pydantic-ai.json'));
    expect(train).toEqual([
      expect.objectContaining({
        messages: cups,
        tools: [stock],
        reply: call,
        group: expect.stringMatching(/^01a2/),
      }),
    ]);
    expect(report).toMatchObject({ read: 2, unread: [] });
  });

  it('several instrumentations give the same ids', async () => {
    const { report } = await read(fixtures);
    const files = (await readdir(fixtures)).filter((name) => name.endsWith('.json')).length;
    expect(report).toMatchObject({ files, read: 27, different: 6, train: 6 });
  });

  it('a collector are read line by line, with values as OTLP has them', async () => {
    const span = (attributes: object[], traceId = 'a') => ({
      resourceSpans: [
        { scopeSpans: [{ spans: [{ traceId, startTimeUnixNano: '1000000000', attributes }] }] },
      ],
    });
    const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });
    const chat = text('gen_ai.operation.name', 'chat');
    const values = (...all: object[]) => ({ arrayValue: { values: all } });
    const fields = (all: Record<string, object>) => ({
      kvlistValue: { values: Object.entries(all).map(([key, value]) => ({ key, value })) },
    });
    const structured = values(
      fields({
        role: { stringValue: 'user' },
        parts: values(fields({ type: { stringValue: 'text' }, content: { stringValue: 'hi' } })),
      }),
    );
    const inEvents = span([chat], 'c');
    const [first] = inEvents.resourceSpans[0]?.scopeSpans[0]?.spans ?? [];
    Object.assign(first ?? {}, {
      startTimeUnixNano: '2000000000',
      events: [
        {
          name: 'gen_ai.content.prompt',
          attributes: [text('gen_ai.prompt', '[{"role":"user","content":"hello"}]')],
        },
        {
          name: 'gen_ai.content.completion',
          attributes: [text('gen_ai.completion', '[{"role":"assistant","content":"Hi."}]')],
        },
      ],
    });
    const { train, report } = await read(
      await linesIn(
        inEvents,
        span([chat, { key: 'gen_ai.input.messages', value: structured }]),
        // The conversation of a trace may be told by another span of it, later.
        span([text('session.id', 'ann')]),
        span([chat, text('gen_ai.input.messages', '[{"role":"user","parts":[{"type":"te')], 'b'),
        { resourceLogs: [] },
        'not json',
        '{"other": 1}',
      ),
    );
    expect(train).toMatchObject([
      { messages: [user('hi')], group: 'ann', time: '1970-01-01T00:00:01.000Z' },
      { messages: [user('hello')], reply: assistant('Hi.'), group: 'c' },
    ]);
    expect(report.unread.map(({ reason }) => reason)).toEqual([
      'an attribute is cut off: it is not JSON',
      'logs or metrics of OpenTelemetry: only traces are read',
      'no JSON',
      'neither a trace, a chat nor a group of a run',
    ]);
  });
});

it('are refused if Git LFS has not fetched their file', async () => {
  const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 40\n';
  await expect(read(await linesIn(pointer))).rejects.toThrow(/Git LFS.*git lfs pull/);
});

describe('logs of chat completions', () => {
  const completion = (message: object) => ({ model: 'gpt', created: 86_400, choices: [{ message }] });

  it('are requests with their answers, or conversations', async () => {
    const tools = [{ type: 'function', function: { name: 'stock' } }];
    const { train, report } = await read(
      await linesIn(
        { request: { model: 'gpt', messages: cups, tools }, response: completion(call), session_id: 's' },
        // As the Batch API has it.
        {
          custom_id: '1',
          url: '/v1/chat/completions',
          body: { messages: [user('a')] },
          response: { body: completion(assistant('b')) },
        },
        {
          messages: [
            { role: 'developer', content: [{ type: 'text', text: 'Be brief.' }] },
            user('c'),
            assistant('d'),
            user('e'),
            assistant('f'),
          ],
        },
        { id: '1', response: completion(assistant('x')) },
        { model: 'gpt', input: 'Say hello.' },
        { messages: [assistant('first')] },
        { messages: [{ role: 'narrator', content: 'x' }] },
        { messages: [] },
        { messages: [user('x')], tools: [{ type: 'web_search' }] },
      ),
    );
    expect(recorded(train)).toMatchObject([
      { messages: [{ role: 'system', content: 'Be brief.' }, user('c')], reply: assistant('d') },
      { messages: cups, tools, reply: call, model: 'gpt', group: 's', time: '1970-01-02T00:00:00.000Z' },
      { messages: [user('a')], reply: assistant('b') },
    ]);
    expect(report.unread.map(({ reason }) => reason)).toEqual([
      'an answer without its request',
      'a call of the Responses API',
      'a conversation that begins with a reply or the result of a tool',
      'a message has the role "narrator"',
      'a conversation without a message',
      'a tool is no function (its type is "web_search", its name "undefined")',
    ]);
  });

  it('are recorded calls too', async () => {
    const file = join(await temporaryFolder(), 'calls.jsonl');
    await evaluate({ environment, scenarios, model: knows('known', 8).recordingTo(file) });
    const { train, report } = await read(file);
    expect(recorded(train).map(({ messages, reply }) => [messages[0]?.content, reply?.content])).toEqual(
      scenarios.map(({ question, answer }) => [question, String(answer)]),
    );
    expect(report.unread).toEqual([]);
  });

  it.each([1.7e9, 1.7e12, 1.7e15, 1.7e18, '2023-11-14T22:13:20Z'])(
    'have the time %s in any unit',
    async (time) => {
      const { train } = await read(await linesIn({ messages: [user('a')], time }));
      expect(train).toMatchObject([{ time: '2023-11-14T22:13:20.000Z' }]);
      const { train: odd } = await read(await linesIn({ messages: [user('a')], time: 1e300 }));
      expect(odd).toEqual([expect.not.objectContaining({ time: expect.anything() })]);
    },
  );

  it('are read up to the first reply: what comes later may be anything', async () => {
    const image = { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:' } }] };
    const { train, report } = await read(await linesIn({ messages: [user('a'), assistant('b'), image] }));
    expect(train).toMatchObject([{ messages: [user('a')], reply: assistant('b') }]);
    expect(report.unread).toEqual([]);
  });

  it('keep the reply of a later call if the first one failed', async () => {
    const { train } = await read(
      await linesIn(
        { messages: [user('a')], created: 1 },
        { messages: [user('a')], response: completion(assistant('b')), created: 2 },
      ),
    );
    expect(train).toMatchObject([{ reply: assistant('b'), time: '1970-01-01T00:00:01.000Z' }]);
  });
});

it('gives the scenarios of runs and evaluations as they are', async () => {
  const folder = await temporaryFolder();
  const directory = join(folder, 'evaluation');
  await evaluate({ environment, scenarios, model: knows('known', 4), rolloutsPerScenario: 2, directory });
  expect(await read(directory)).toMatchObject({ train: scenarios, report: { read: 8, unread: [] } });
  const run = join(folder, 'runs/first');
  await mkdir(join(run, 'trajectories'), { recursive: true });
  await writeFile(join(run, 'config.json'), '{"not":"read"}');
  for (const step of ['step-0000', 'step-0001'])
    await copyFile(join(directory, 'groups.jsonl'), join(run, `trajectories/${step}.jsonl`));
  expect(await read(join(folder, 'runs'))).toMatchObject({
    train: scenarios,
    report: { read: 16, unread: [] },
  });
});

it('lets a function change or leave out scenarios, and joins those that are equal after it', async () => {
  const file = await linesIn(...['ann', 'bob', 'cat'].map((name) => ({ messages: [user(`I am ${name}`)] })), {
    messages: [user('a secret')],
  });
  const { train, report } = await read(file, {
    map: async (scenario) => {
      const { messages, ...rest } = recordedScenario.parse(scenario);
      if (messages.some((message) => message.content.includes('secret'))) return null;
      const hidden = messages.map((message) => ({
        ...message,
        content: message.content.replace(/ann|bob/, 'NAME'),
      }));
      return { ...rest, messages: hidden, tone: 'kind' };
    },
  });
  expect(train).toEqual([
    { id: expect.any(String), messages: [user('I am NAME')], tone: 'kind' },
    { id: expect.any(String), messages: [user('I am cat')], tone: 'kind' },
  ]);
  expect(report).toMatchObject({ different: 4, dropped: 1, merged: 1, train: 2 });
  // The id does not tell what was removed.
  const [first] = recorded(train);
  const alone = await read(await linesIn({ messages: [user('I am NAME')] }));
  expect(first?.id).toBe(recorded(alone.train)[0]?.id);

  const own = await read(file, {
    map: (scenario) => ({ question: recordedScenario.parse(scenario).messages[0]?.content }),
  });
  expect(own.train[0]).toEqual({ question: 'I am ann' });
});

describe('the split', () => {
  it('puts the newest conversations into validation, each as a whole', async () => {
    const log = (n: number, session_id: string) => ({ messages: [user(`${n}`)], created: n, session_id });
    const file = await linesIn(
      log(5, 'new'),
      log(1, 'old'),
      log(2, 'mid'),
      log(4, 'old'),
      log(6, 'new'),
      log(3, 'mid'),
    );
    const textsOf = (some: unknown[]) => recorded(some).map(({ messages }) => messages[0]?.content);
    const { train, validation } = await read(file, { validation: 0.3 });
    expect([textsOf(train), textsOf(validation)]).toEqual([
      ['1', '4', '2', '3'],
      ['5', '6'],
    ]);
    // Without times the order of the lines counts.
    const plain = await read(
      await linesIn(...['a', 'b', 'c', 'd'].map((text) => ({ messages: [user(text)] }))),
      { validation: 0.25 },
    );
    expect([textsOf(plain.train), textsOf(plain.validation)]).toEqual([['a', 'b', 'c'], ['d']]);
  });

  it('loses and repeats nothing, and never validates on what is older than what trains', async () => {
    const line = fc.record({
      text: fc.nat(30),
      session: fc.nat(5),
      created: fc.integer({ min: 1, max: 40 }),
    });
    const share = fc.double({ min: 0, max: 0.9, noNaN: true });
    await fc.assert(
      fc.asyncProperty(fc.array(line, { minLength: 1, maxLength: 40 }), share, async (lines, validation) => {
        const file = await linesIn(
          ...lines.map(({ text, session, created }) => ({
            messages: [user(`${text}`)],
            created,
            session_id: `s${session}`,
          })),
        );
        const parts = await read(file, { validation });
        const [train, held] = [recorded(parts.train), recorded(parts.validation)];
        const all = [...train, ...held].map(({ messages }) => Number(messages[0]?.content));
        expect(all.toSorted((a, b) => a - b)).toEqual(
          [...new Set(lines.map(({ text }) => text))].sort((a, b) => a - b),
        );
        const groups = new Set(train.map(({ group }) => group));
        expect(held.filter(({ group }) => groups.has(group))).toEqual([]);
        const firstOf = (some: RecordedScenario[]) =>
          [...Map.groupBy(some, ({ group }) => group).values()].map(([one]) => Date.parse(one?.time ?? ''));
        expect(Math.max(0, ...firstOf(train))).toBeLessThanOrEqual(
          Math.min(Number.POSITIVE_INFINITY, ...firstOf(held)),
        );
        if (validation === 0) expect(held).toEqual([]);
      }),
      { numRuns: 60, seed: 4 },
    );
  });
});

it('refuses sources that are not there', async () => {
  const folder = await temporaryFolder();
  await expect(read(join(folder, 'absent'))).rejects.toMatchObject({ code: 'source_not_found' });
  await expect(read(folder)).rejects.toThrow('has no files that end in .json, .jsonl or .ndjson');
});
