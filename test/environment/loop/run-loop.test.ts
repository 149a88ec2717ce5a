import { NoSuchToolError, Output, tool } from 'ai';
import { defineEnvironment, type Reply } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { runRollout } from '../../../src/rollout/run-rollout.ts';
import type { FakePolicy, Reply as FakeReply } from '../../model/fake-service.ts';
import { noScenario, openPolicy, outcomeOf, rolloutOptions, runOnce } from '../run-once.ts';

const base = { name: 'x', scenario: z.object({}), rewards: { one: () => 1 } };
const guess = z.object({ secret: z.number() });
const never = <Result>() => new Promise<Result>(() => undefined);

/** Replies in order. The last reply repeats forever. */
function script(...replies: FakeReply[]): FakePolicy {
  let at = 0;
  return () => replies[Math.min(at++, replies.length - 1)] ?? {};
}

const calls = (...made: [string, unknown][]): FakeReply => ({
  toolCalls: made.map(([name, input]) => ({ name, arguments: JSON.stringify(input) })),
});

test('a prompt without other pieces is one turn', async () => {
  const environment = defineEnvironment({
    ...base,
    scenario: z.object({ who: z.string() }),
    system: ({ scenario }) => `You know ${scenario.who}.`,
    prompt: ({ scenario }) => `Hello, says ${scenario.who}.`,
  });
  await using service = await openPolicy(script({ text: 'hi' }));
  const ended = await runRollout(rolloutOptions(environment, { who: 'Ada' }, service.model));
  expect(outcomeOf(ended)).toMatchObject({ text: 'hi', output: null, turns: 1, stopReason: 'finished' });
  expect(outcomeOf(ended).messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
  expect(service.requests.map(({ messages }) => messages)).toEqual([
    [
      { role: 'system', content: 'You know Ada.' },
      { role: 'user', content: 'Hello, says Ada.' },
    ],
  ]);
  expect(ended.trajectory.toRecord().metadata).toMatchObject({ stop_reason: 'finished' });
});

test('the conversation continues with each observation until `observe` returns null', async () => {
  const turns: unknown[] = [];
  const environment = defineEnvironment({
    ...base,
    scenario: guess,
    setup: () => ({ low: 0 }),
    prompt: () => [{ role: 'user', content: 'Guess.' }],
    observe: async ({ scenario, state, reply, turn, messages }) => {
      turns.push([turn, reply.text, messages.length]);
      const said = Number(reply.text);
      if (said === scenario.secret) return null;
      if (said < scenario.secret) state.low = said;
      return said < scenario.secret ? 'higher' : [{ role: 'user', content: 'lower' }];
    },
    rewards: { low: ({ state, outcome }) => state.low + outcome.turns },
  });
  const ended = await runOnce(
    environment,
    { secret: 5 },
    script({ text: '3' }, { text: '8' }, { text: '5' }),
  );
  expect(turns).toEqual([
    [1, '3', 2],
    [2, '8', 4],
    [3, '5', 6],
  ]);
  expect(ended).toMatchObject({ status: 'completed', reward: 6, outcome: { text: '5', turns: 3 } });
  // One history: each prompt is what was sampled before, token for token.
  expect(ended.trajectory.histories).toHaveLength(1);
  expect(ended.trajectory.choices).toHaveLength(3);
});

test('tools run once each, in order, before the next model call; `observe` sees only the last reply', async () => {
  const ran: string[] = [];
  const slowness: Record<string, number> = { a: 3, b: 2, c: 0 };
  const observed: string[] = [];
  const environment = defineEnvironment({
    ...base,
    prompt: () => 'Go.',
    setup: () => ({ seen: 0 }),
    tools: async ({ state }) => ({
      look: tool({
        inputSchema: z.object({ at: z.string() }),
        execute: async ({ at }) => {
          ran.push(`${at}(`);
          for (let turn = 0; turn < (slowness[at] ?? 0); turn++) await new Promise(setImmediate);
          state.seen++;
          ran.push(`)${at}`);
          return `saw ${at}`;
        },
      }),
    }),
    observe: ({ reply }) => {
      observed.push(reply.text);
      return null;
    },
    rewards: { seen: ({ state }) => state.seen },
  });
  await using service = await openPolicy(
    script(calls(['look', { at: 'a' }], ['look', { at: 'b' }], ['look', { at: 'c' }]), { text: 'done' }),
  );
  const ended = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(ended).toMatchObject({ status: 'completed', reward: 3, outcome: { text: 'done', turns: 2 } });
  expect(ran).toEqual(['a(', ')a', 'b(', ')b', 'c(', ')c']);
  expect(observed).toEqual(['done']);
  expect(service.requests[1]?.messages.slice(-3).map(({ content }) => content)).toEqual([
    'saw a',
    'saw b',
    'saw c',
  ]);
  expect(ended.trajectory.metrics.tool_errors).toBe(0);
});

test('with `parallel`, tools run at the same time and their results keep the order', async () => {
  const ran: string[] = [];
  const second = Promise.withResolvers<void>();
  const environment = defineEnvironment({
    ...base,
    prompt: () => 'Go.',
    toolExecution: 'parallel',
    tools: {
      first: tool({ inputSchema: z.object({}), execute: () => second.promise.then(() => ran.push('first')) }),
      second: tool({
        inputSchema: z.object({}),
        execute: () => {
          second.resolve();
          return ran.push('second');
        },
      }),
    },
  });
  const ended = await runOnce(
    environment,
    noScenario,
    script(calls(['first', {}], ['second', {}]), { text: 'x' }),
  );
  expect(ran).toEqual(['second', 'first']);
  const results = outcomeOf(ended).messages.flatMap(({ role, content }) =>
    role === 'tool' && typeof content !== 'string'
      ? content.map((part) => ('toolName' in part ? part.toolName : ''))
      : [],
  );
  expect(results).toEqual(['first', 'second']);
});

const breaking = {
  ...base,
  prompt: () => 'Go.',
  tools: {
    dig: tool({
      inputSchema: z.object({ depth: z.number() }),
      execute: (): string => {
        throw new Error('the spade broke');
      },
    }),
  },
};

test('the error of a tool is shown to the model and counted', async () => {
  const replies: Reply[] = [];
  const environment = defineEnvironment({
    ...breaking,
    stop: ({ reply }) => {
      replies.push(reply);
      return false;
    },
  });
  await using service = await openPolicy(script(calls(['dig', { depth: 1 }]), { text: 'sorry' }));
  const ended = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(outcomeOf(ended)).toMatchObject({ text: 'sorry', turns: 2 });
  expect(service.requests[1]?.messages.at(-1)).toMatchObject({
    role: 'tool',
    content: 'Error: the spade broke',
  });
  expect(ended.trajectory.metrics.tool_errors).toBe(1);
  expect(replies[0]?.toolCalls).toMatchObject([
    { name: 'dig', input: { depth: 1 }, error: new Error('the spade broke') },
  ]);
});

test('with `fail`, a tool that throws fails the rollout', async () => {
  const environment = defineEnvironment({ ...breaking, onToolError: 'fail' });
  const ended = await runOnce(environment, noScenario, script(calls(['dig', { depth: 1 }])));
  expect(ended).toMatchObject({
    status: 'failed',
    failure: { code: 'tool_failed', message: 'The tool "dig" threw: the spade broke' },
  });
});

test('invalid calls are the policy’s mistake, even with `fail`', async () => {
  const replies: Reply[] = [];
  const environment = defineEnvironment({
    ...breaking,
    onToolError: 'fail',
    stop: ({ reply }) => {
      replies.push(reply);
      return false;
    },
  });
  const ended = await runOnce(
    environment,
    noScenario,
    script(
      { toolCalls: [{ name: 'dig', arguments: '{"depth":' }] },
      calls(['dig', { depth: 'deep' }]),
      calls(['fly', {}]),
      { text: 'I give up' },
    ),
  );
  expect(outcomeOf(ended)).toMatchObject({ text: 'I give up', turns: 4 });
  expect(replies.map(({ toolCalls: [call] }) => Boolean(call?.error))).toEqual([true, true, true, false]);
  expect(String(replies[2]?.toolCalls[0]?.error)).toContain('fly');
  expect(NoSuchToolError).toBeDefined();
  expect(ended.trajectory.metrics.tool_errors).toBe(0);
});

test('`stop` ends the conversation with its own reason, after the tools have run', async () => {
  const environment = defineEnvironment({
    ...base,
    setup: () => ({ submitted: '' }),
    prompt: () => 'Go.',
    tools: ({ state }) => ({
      submit: tool({
        inputSchema: z.object({ answer: z.string() }),
        execute: ({ answer }) => {
          state.submitted = answer;
          return 'thank you';
        },
      }),
    }),
    stop: ({ state }) => (state.submitted ? 'submitted' : false),
    rewards: { right: ({ state }) => Number(state.submitted === '42') },
  });
  const ended = await runOnce(environment, noScenario, script(calls(['submit', { answer: '42' }])));
  expect(ended).toMatchObject({ status: 'completed', reward: 1 });
  expect(outcomeOf(ended)).toMatchObject({ turns: 1, stopReason: 'submitted' });
  expect(ended.trajectory.stopReason).toBe('submitted');
});

test('structured output is requested and parsed; a reply that does not fit is null', async () => {
  const read: unknown[] = [];
  const environment = defineEnvironment({
    ...base,
    prompt: () => 'Go.',
    output: Output.object({ schema: z.object({ move: z.enum(['left', 'right']) }) }),
    observe: ({ reply }) => {
      read.push(reply.output);
      return reply.output?.move === 'right' ? null : 'again';
    },
    rewards: { right: ({ outcome }) => Number(outcome.output?.move === 'right') },
  });
  await using service = await openPolicy(
    script(
      { text: '{"move":"left"}' },
      { text: 'hm' },
      { text: '{"move":"up"}' },
      { text: '{"move":"right"}' },
    ),
  );
  const ended = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(ended).toMatchObject({ status: 'completed', reward: 1 });
  expect(read).toEqual([{ move: 'left' }, null, null, { move: 'right' }]);
  expect(service.requests[0]?.response_format).toMatchObject({ type: 'json_schema' });
});

test('settings reach each call', async () => {
  const environment = defineEnvironment({
    ...base,
    prompt: () => 'Go.',
    tools: { act: tool({ inputSchema: z.object({}), execute: () => 'done' }) },
    settings: {
      temperature: 0.5,
      maxOutputTokens: 9,
      toolChoice: 'required',
      providerOptions: { martingale: { parallel_tool_calls: false } },
    },
    stop: ({ turn }) => (turn === 2 ? 'enough' : false),
  });
  await using service = await openPolicy(script(calls(['act', {}])));
  await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(service.requests).toHaveLength(2);
  for (const request of service.requests)
    expect(request).toMatchObject({
      temperature: 0.5,
      max_completion_tokens: 9,
      tool_choice: 'required',
      parallel_tool_calls: false,
    });
});

test.each([
  ['turns', { turns: 2 }, 'turn_limit', 2],
  ['tokens', { tokens: 8 }, 'token_limit', 2],
] as const)('a limit of %s ends the conversation cleanly: it is scored', async (_, limits, reason, turns) => {
  const observed: number[] = [];
  const environment = defineEnvironment({
    ...base,
    limits,
    prompt: () => 'Go.',
    observe: ({ turn }) => {
      observed.push(turn);
      return 'again';
    },
    rewards: { said: ({ outcome }) => outcome.turns },
  });
  const ended = await runOnce(environment, noScenario, script({ text: 'yes' }));
  expect(ended).toMatchObject({ status: 'completed', reward: turns });
  expect(outcomeOf(ended)).toMatchObject({ text: 'yes', stopReason: reason });
  // The last reply that was allowed is observed as well.
  expect(observed).toEqual([1, 2]);
  expect(ended.trajectory.stopReason).toBe(reason);
});

test('a limit of tool calls ends the conversation', async () => {
  let acted = 0;
  const environment = defineEnvironment({
    ...base,
    limits: { toolCalls: 3 },
    prompt: () => 'Go.',
    tools: { act: tool({ inputSchema: z.object({}), execute: () => ++acted }) },
  });
  const ended = await runOnce(environment, noScenario, script(calls(['act', {}], ['act', {}])));
  expect(outcomeOf(ended)).toMatchObject({ turns: 2, stopReason: 'tool_call_limit' });
  expect(acted).toBe(4);
});

test.each([
  ['a call', () => ({ prompt: () => 'Go.', observe: () => 'again' }), never],
  ['a tool that ignores its signal', () => ({ tools: { wait: waiting(never) } }), undefined],
] as const)('the time limit ends a conversation that waits for %s', async (_, pieces, second) => {
  const environment = defineEnvironment({
    ...base,
    limits: { milliseconds: 500 },
    prompt: () => 'Go.',
    observe: () => 'again',
    ...pieces(),
    rewards: { turns: ({ outcome }) => outcome.turns },
  });
  let requestCount = 0;
  const ended = await runOnce(environment, noScenario, () => {
    if (requestCount++ === 0) return { text: 'first' };
    return second ? second() : calls(['wait', {}]);
  });
  expect(ended).toMatchObject({ status: 'completed', reward: 1 });
  expect(outcomeOf(ended)).toMatchObject({ text: 'first', turns: 1, stopReason: 'time_limit' });
});

function waiting(wait: () => Promise<string>) {
  return tool({ inputSchema: z.object({}), execute: wait });
}

test('a sub-agent’s call in a tool counts, and ends the conversation if it cannot be trained on', async () => {
  const environment = defineEnvironment({
    ...base,
    prompt: () => 'Go.',
    tools: ({ trajectory }) => ({
      ask: tool({
        inputSchema: z.object({}),
        execute: async () => {
          const { index } = trajectory.startCall();
          const choice = {
            index: 0,
            message: { role: 'assistant', content: 'x' },
            finish_reason: 'stop',
          } as const;
          trajectory.record({
            ...{ index, messages: [], tools: undefined, promptTokenIds: [1], model: 'local/p/n:step2' },
            choice: { ...choice, logprobs: null, token_ids: [1] },
          });
          return 'unreached';
        },
      }),
    }),
  });
  await using service = await openPolicy(script(calls(['ask', {}])));
  const ended = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(ended).toMatchObject({ status: 'failed', failure: { code: 'unexpected_call_other_step' } });
  expect(service.requests).toHaveLength(1);
});

const nothing = (): string => JSON.parse('null');
const wrongPieces: [string, object, RegExp][] = [
  ['no prompt', { prompt: nothing }, /`prompt` returned null. Return text or messages/],
  ['an empty prompt', { prompt: () => [] }, /`prompt` returned no message/],
  [
    'an observation of nothing',
    { observe: () => undefined },
    /`observe` returned undefined. .* or null to end/,
  ],
  ['an empty observation', { observe: () => [] }, /`observe` returned no message/],
  ['a stop without a reason', { stop: () => true }, /`stop` returned true. Return a stop reason, or false/],
  [
    'a tool that nothing executes',
    { tools: { act: { inputSchema: z.object({}), outputSchema: z.string() } } },
    /`tools` has "act" without `execute`/,
  ],
  [
    'a tool that waits for approval',
    { tools: { act: { inputSchema: z.object({}), execute: () => 1, needsApproval: true } } },
    /`tools` has "act", whose call was not run/,
  ],
];

test.each(wrongPieces)('%s is refused by name', async (_, pieces, message) => {
  const environment = defineEnvironment({ ...base, prompt: () => 'Go.', ...pieces });
  const ended = await runOnce(
    environment,
    noScenario,
    script({ text: 'x', ...calls(['act', {}]) }, { text: 'y' }),
  );
  const plain = await runOnce(environment, noScenario, script({ text: 'y' }));
  const failures = [ended, plain].flatMap((rollout) =>
    rollout.status === 'failed' ? [rollout.failure] : [],
  );
  expect(failures).toContainEqual(
    expect.objectContaining({ code: 'invalid_piece', message: expect.stringMatching(message) }),
  );
});

test.each([
  ['prompt', { prompt: () => Promise.reject(new Error('no')) }],
  ['system', { system: () => Promise.reject(new Error('no')) }],
  ['tools', { tools: () => Promise.reject(new Error('no')) }],
  ['observe', { observe: () => Promise.reject(new Error('no')) }],
  ['stop', { stop: () => Promise.reject(new Error('no')) }],
])('what `%s` throws fails the rollout', async (_, pieces) => {
  const environment = defineEnvironment({ ...base, prompt: () => 'Go.', ...pieces });
  expect(await runOnce(environment, noScenario, script({ text: 'x' }))).toMatchObject({
    status: 'failed',
    failure: { code: 'Error', message: 'no' },
  });
});
