import { registerTelemetry, type Telemetry, ToolLoopAgent, tool } from 'ai';
import { defineEnvironment, traceTools } from 'martingale';
import { expect, expectTypeOf, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { withSpan } from '../../src/telemetry/index.ts';
import type { FakePolicy } from '../model/fake-service.ts';
import { startRecording } from '../telemetry/recording-sdk.ts';
import { noScenario, runOnce } from './run-once.ts';

const options = { toolCallId: 'call_1', messages: [], context: {} };
const inputSchema = z.object({ at: z.string() });

function record() {
  const { spans, stop } = startRecording();
  onTestFinished(stop);
  return spans;
}

const look = tool({
  inputSchema,
  execute: async ({ at }) => withSpan('inner', {}, async () => `saw ${at}`),
});

const act: FakePolicy = ({ messages }) =>
  messages.at(-1)?.role === 'tool'
    ? { text: 'done' }
    : { toolCalls: [{ name: 'look', arguments: '{"at":"door"}' }] };

test('a tool runs in a span with its name and the id of its call', async () => {
  const spans = record();
  const { look: traced } = traceTools({ look });
  expectTypeOf(traced).toEqualTypeOf(look);
  expect(await traced.execute?.({ at: 'door' }, options)).toBe('saw door');
  expect(spans.map(({ name, parent, ends }) => [name, parent, ends])).toEqual([
    ['execute_tool look', undefined, 1],
    ['inner', 'execute_tool look', 1],
  ]);
  expect(spans[0]?.attributes).toEqual({
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'look',
    'gen_ai.tool.call.id': 'call_1',
  });
});

test('what a tool throws, synchronously or later, is rethrown and recorded in its span', async () => {
  const spans = record();
  const { now, later } = traceTools({
    now: tool({
      inputSchema,
      execute: (): string => {
        throw new RangeError('at once');
      },
    }),
    later: tool({ inputSchema, execute: (): Promise<string> => Promise.reject(new RangeError('later')) }),
  });
  expect(() => now.execute?.({ at: '' }, options)).toThrow('at once');
  await expect(later.execute?.({ at: '' }, options)).rejects.toThrow('later');
  expect(spans.map(({ attributes, ends }) => [attributes['error.type'], ends])).toEqual([
    ['RangeError', 1],
    ['RangeError', 1],
  ]);
});

test('a streamed result is one span until the last piece or until the consumer stops', async () => {
  const spans = record();
  const left: string[] = [];
  const { count } = traceTools({
    count: tool({
      inputSchema,
      execute: async function* ({ at }) {
        try {
          yield 1;
          await withSpan('inner', {}, async () => undefined);
          if (at === 'broken') throw new RangeError('half way');
          yield 2;
        } finally {
          left.push(at);
        }
      },
    }),
  });
  const read = async (at: string, most: number) => {
    const pieces: unknown[] = [];
    const result = count.execute?.({ at }, options);
    if (result && typeof result === 'object' && Symbol.asyncIterator in result)
      for await (const piece of result) if (pieces.push(piece) >= most) break;
    return pieces;
  };
  expect(await read('whole', 9)).toEqual([1, 2]);
  expect(await read('left', 1)).toEqual([1]);
  await expect(read('broken', 9)).rejects.toThrow('half way');
  expect(left).toEqual(['whole', 'left', 'broken']);
  const tools = spans.filter(({ name }) => name === 'execute_tool count');
  expect(tools.map(({ ends }) => ends)).toEqual([1, 1, 1]);
  expect(tools.map(({ attributes }) => attributes['error.type'])).toEqual([
    undefined,
    undefined,
    'RangeError',
  ]);
  expect(spans.filter(({ name }) => name === 'inner').map(({ parent }) => parent)).toEqual([
    'execute_tool count',
    'execute_tool count',
  ]);
});

test('a lazy thenable starts its work once', async () => {
  let begun = 0;
  const lazy: PromiseLike<string> = {
    // biome-ignore lint/suspicious/noThenProperty: query builders are such thenables
    then: (resolve, reject) => {
      begun++;
      return Promise.resolve('row').then(resolve, reject);
    },
  };
  const { query } = traceTools({ query: tool({ inputSchema, execute: () => lazy }) });
  expect(await query.execute?.({ at: '' }, options)).toBe('row');
  expect(begun).toBe(1);
});

test('tools without `execute` do not change', () => {
  const given = { ask: tool({ inputSchema, outputSchema: z.string() }) };
  expect(traceTools(given).ask).toBe(given.ask);
});

const base = { name: 'x', scenario: z.object({}), rewards: { one: () => 1 } };

const spansOfRollout = [
  ['rollout', undefined],
  ['chat local/p/n:step1', 'rollout'],
  ['execute_tool look', 'rollout'],
  ['inner', 'execute_tool look'],
  ['chat local/p/n:step1', 'rollout'],
  ['reward', 'rollout'],
];

test('the tools of an environment of pieces are spans of the rollout', async () => {
  const spans = record();
  const environment = defineEnvironment({ ...base, prompt: () => 'Go.', tools: { look } });
  expect(await runOnce(environment, noScenario, act)).toMatchObject({ status: 'completed' });
  expect(spans.map(({ name, parent }) => [name, parent])).toEqual(spansOfRollout);
});

test('the traced tools of an agent are spans of the rollout', async () => {
  const spans = record();
  const environment = defineEnvironment({
    ...base,
    rollout: async ({ model, signal }) => {
      const agent = new ToolLoopAgent({ model: model.languageModel, tools: traceTools({ look }) });
      return (await agent.generate({ prompt: 'Go.', abortSignal: signal })).text;
    },
  });
  expect(await runOnce(environment, noScenario, act)).toMatchObject({ status: 'completed' });
  expect(spans.map(({ name, parent }) => [name, parent])).toEqual(spansOfRollout);
});

const plain = defineEnvironment({
  name: 'plain tools',
  scenario: z.object({}),
  rollout: ({ model }) => {
    const tools = { look, ...traceTools({ peek: look }) };
    return new ToolLoopAgent({ model: model.languageModel, tools }).generate({ prompt: 'go' });
  },
  rewards: { one: () => 1 },
});
const both: FakePolicy = ({ messages }) =>
  messages.at(-1)?.role === 'tool'
    ? { text: 'done' }
    : {
        toolCalls: ['look', 'peek'].map((name) => ({ name, arguments: '{"at":"door"}' })),
      };

test('a tool that the AI SDK runs in a rollout has one span, traced or not, the parent of its inner spans', async () => {
  const spans = record();
  await runOnce(plain, noScenario, both);
  expect(
    spans
      .filter(({ name }) => name === 'inner' || name.startsWith('execute_tool'))
      .map(({ name, parent }) => `${parent} > ${name}`)
      .sort(),
  ).toEqual([
    'execute_tool look > inner',
    'execute_tool peek > inner',
    'rollout > execute_tool look',
    'rollout > execute_tool peek',
  ]);
});

test('other telemetry registered with the AI SDK makes the spans', async () => {
  const spans = record();
  const seen: string[] = [];
  const theirs: Telemetry = {
    executeTool: ({ execute, toolCall }) => {
      seen.push(toolCall?.toolName ?? '');
      return execute();
    },
  };
  registerTelemetry(theirs);
  onTestFinished(() => {
    const registered = globalThis.AI_SDK_TELEMETRY_INTEGRATIONS ?? [];
    registered.splice(registered.indexOf(theirs), 1);
  });
  await runOnce(plain, noScenario, both);
  expect(seen.sort()).toEqual(['look', 'peek']);
  const names = spans.map(({ name }) => name).filter((name) => name.startsWith('execute_tool'));
  // Requested by name.
  expect(names).toEqual(['execute_tool peek']);
});
