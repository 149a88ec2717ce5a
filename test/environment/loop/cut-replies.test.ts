import { tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { type RolloutModel, Trajectory } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { LoopPieces } from '../../../src/environment/index.ts';
import { runLoop } from '../../../src/environment/loop/run-loop.ts';

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const call = { type: 'tool-call', toolCallId: 'c', toolName: 'act', input: '{}' } as const;
const text = { type: 'text', text: 'cut off in the mid' } as const;

/** Every reply of the model ends like this. */
async function lead(
  part: typeof call | typeof text,
  finish: 'length' | 'content-filter' | 'stop' | 'tool-calls',
  pieces: Partial<LoopPieces<object, undefined, never>>,
  trajectory = new Trajectory(),
) {
  const model: RolloutModel = {
    name: 'm',
    step: undefined,
    languageModel: new MockLanguageModelV4({
      doGenerate: async () => ({
        content: [part],
        finishReason: { unified: finish, raw: finish },
        usage,
        warnings: [],
      }),
    }),
    endpoint: () => Promise.reject(new Error('no endpoint')),
  };
  const progress = { text: '', output: null, messages: [], turns: 0 };
  const { signal } = new AbortController();
  const context = { scenario: {}, texts: {}, state: undefined, model, trajectory, signal, seed: 0 };
  const reason = await runLoop({ prompt: () => 'Go.', ...pieces }, context, progress);
  return { reason, turns: progress.turns, text: progress.text };
}

const act = tool({ inputSchema: z.object({}), execute: () => 'done' });

test('a cut reply ends the conversation with `length`', async () => {
  expect(await lead(text, 'length', {})).toMatchObject({ reason: 'length', turns: 1 });
});

test('a cut reply without remaining tokens ends it with `token_limit`', async () => {
  const trajectory = Object.defineProperty(new Trajectory(), 'remainingTokens', { value: 0 });
  expect(await lead(text, 'length', {}, trajectory)).toMatchObject({ reason: 'token_limit', turns: 1 });
  expect(await lead(call, 'length', { tools: { act } }, trajectory)).toMatchObject({ reason: 'token_limit' });
});

test('`observe` may continue after a cut reply', async () => {
  const observe = ({ turn }: { turn: number }) => (turn < 3 ? 'go on' : null);
  expect(await lead(text, 'length', { observe })).toMatchObject({ reason: 'finished', turns: 3 });
});

test.each(['length', 'content-filter'] as const)(
  'tools of a reply cut by %s are not run, and end it',
  async (finish) => {
    const observe = () => {
      throw new Error('observed');
    };
    expect(await lead(call, finish, { tools: { act }, observe })).toMatchObject({ reason: finish, turns: 1 });
  },
);

test('a reply that breaks the tool choice ends the conversation and is scored', async () => {
  const observe = () => {
    throw new Error('observed');
  };
  const pieces = { tools: { act }, observe, settings: { toolChoice: 'required' } } as const;
  expect(await lead(text, 'stop', pieces)).toEqual({ reason: 'tool_choice', turns: 1, text: text.text });
  expect(await lead(text, 'length', pieces)).toEqual({ reason: 'length', turns: 1, text: text.text });
  const none = { ...pieces, settings: { toolChoice: 'none' } } as const;
  expect(await lead(call, 'tool-calls', none)).toEqual({ reason: 'tool_choice', turns: 1, text: '' });
});
