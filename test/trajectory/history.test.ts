import { describe, expect, test } from 'vitest';
import type { Choice, Message, Tool } from '../../src/contract/index.ts';
import {
  fromTrajectoryRecord,
  Trajectory,
  TrajectoryError,
  toTrajectoryRecord,
} from '../../src/trajectory/index.ts';
import type { AnsweredCall } from '../../src/trajectory/recorded-call.ts';

const choice = (content: string, token_ids: number[]): Choice => ({
  index: 0,
  message: { role: 'assistant', content },
  finish_reason: 'stop',
  token_ids,
});
const user = (content: string): Message => ({ role: 'user', content });
const assistant = (content: string): Message => ({ role: 'assistant', content });

function record(trajectory: Trajectory, call: Partial<AnsweredCall> & Pick<AnsweredCall, 'promptTokenIds'>) {
  const { index } = trajectory.startCall();
  trajectory.record({
    index,
    messages: [user('a')],
    tools: undefined,
    choice: choice('b', [3, 9]),
    model: 'e/p/n:step2',
    ...call,
  });
}

test('a call whose prompt begins with the last prompt and its sampled tokens extends the history', () => {
  const trajectory = new Trajectory();
  record(trajectory, { promptTokenIds: [1, 2] });
  record(trajectory, {
    messages: [user('a'), assistant('b'), user('c')],
    promptTokenIds: [1, 2, 3, 9, 4],
    choice: choice('d', [5]),
  });
  expect(trajectory.histories).toHaveLength(1);
  expect(trajectory.toRecord().messages_and_choices).toEqual([
    user('a'),
    choice('b', [3, 9]),
    user('c'),
    choice('d', [5]),
  ]);
});

describe('the prompts of a history', () => {
  const carried = (content: string, token_ids: number[], prompt_token_ids: number[]): Choice => ({
    ...choice(content, token_ids),
    prompt_token_ids,
  });
  const answered = [carried('b', [3, 9], [1, 2]), carried('d', [5], [1, 2, 3, 9, 4]), carried('f', [6], [7])];
  const conversations = [[user('a')], [user('a'), assistant('b'), user('c')], [user('e')]];
  const prompts = (trajectory: Trajectory) =>
    trajectory.choices.map((one) => one.added_prompt_token_ids ?? one.prompt_token_ids);

  function recorded(): Trajectory {
    const trajectory = new Trajectory({ startTime: new Date(0) });
    for (const [at, one] of answered.entries())
      record(trajectory, {
        messages: conversations[at] ?? [],
        choice: one,
        promptTokenIds: [...(one.prompt_token_ids ?? [])],
      });
    trajectory.creditCalls(new Map([[0, 0.5]]));
    trajectory.reward = 1;
    trajectory.seal();
    return trajectory;
  }

  const whole = JSON.stringify([user('a'), { ...answered[0], credited_reward: 0.5 }, user('c'), answered[1]]);

  test('are kept once, and sent with each choice as it was answered', () => {
    const trajectory = recorded();
    expect(prompts(trajectory)).toEqual([[1, 2], [4], [7]]);
    expect(JSON.stringify(trajectory.toBody().messages_and_choices)).toBe(whole);
    // What the caller of the model holds stays as it was.
    expect(answered[0]).toHaveProperty('prompt_token_ids', [1, 2]);
  });

  test('are sent as what they add to the choice before, if asked so', () => {
    const { messages_and_choices: entries, additional_histories: others } = recorded().toBody('compact');
    expect(entries).toEqual([
      ...[user('a'), { ...answered[0], credited_reward: 0.5 }],
      ...[user('c'), { ...choice('d', [5]), added_prompt_token_ids: [4] }],
    ]);
    expect(others).toEqual([{ messages_and_choices: [user('e'), answered[2]] }]);
  });

  test('go when the trajectory is released, which can still be read but not trained on', () => {
    const trajectory = recorded();
    trajectory.release({ keepsTexts: true });
    expect(prompts(trajectory)).toEqual([undefined, undefined, undefined]);
    const { messages_and_choices: entries } = trajectory.toBody();
    expect(entries).toEqual([
      user('a'),
      { ...choice('b', [3, 9]), credited_reward: 0.5 },
      user('c'),
      choice('d', [5]),
    ]);
    expect(trajectory.calls.map(({ messages }) => messages)).toEqual(conversations);
    expect(() => trajectory.requireTrainable()).toThrow(/has let its prompts and log-probabilities go/);
    trajectory.release();
    expect(trajectory.calls.map(({ messages }) => messages)).toEqual([[], [], []]);
    expect(() => trajectory.toBody()).toThrow(/was released/);
  });

  test('are on disk once, and come back', () => {
    const written = JSON.stringify(toTrajectoryRecord(recorded()));
    expect(written.match(/"prompt_token_ids"/g)).toHaveLength(2);
    const restored = fromTrajectoryRecord(JSON.parse(written));
    expect(JSON.stringify(restored.toBody())).toBe(JSON.stringify(recorded().toBody()));
  });

  test('that a run of an earlier version has repeated are kept once when they are read', () => {
    const repeated = { ...toTrajectoryRecord(recorded()), ...recorded().toBody() };
    const restored = fromTrajectoryRecord(JSON.parse(JSON.stringify(repeated)));
    expect(prompts(restored)).toEqual([[1, 2], [4], [7]]);
    expect(JSON.stringify(restored.toBody())).toBe(JSON.stringify(recorded().toBody()));
  });
});

test.each([
  ['a sampled token is another', [1, 2, 3, 8, 4]],
  ['the sampled end token is missing', [1, 2, 3, 4]],
  ['an earlier token is another', [1, 7, 3, 9, 4]],
  ['it is shorter', [1, 2, 3]],
])('a new history begins if %s', (_, promptTokenIds) => {
  const trajectory = new Trajectory();
  record(trajectory, { promptTokenIds: [1, 2] });
  record(trajectory, { messages: [user('a'), assistant('b'), user('c')], promptTokenIds });
  expect(trajectory.histories).toHaveLength(2);
  expect(trajectory.toRecord().additional_histories).toHaveLength(1);
});

test('counts histories whose prompt was rewritten though the agent sent the same conversation again', () => {
  const thought: Choice = {
    ...choice('b', [3, 9]),
    message: { role: 'assistant', content: 'b', reasoning_content: 'c' },
  };
  const sent: Message = { role: 'assistant', content: 'b', reasoning_content: 'c', token_ids: [3, 9] };
  const tools: Tool[] = [{ type: 'function', function: { name: 'look' } }];
  const rewrittenBy = (call: Partial<AnsweredCall>) => {
    const trajectory = new Trajectory();
    record(trajectory, { promptTokenIds: [1, 2], choice: thought });
    record(trajectory, { messages: [user('a'), sent, user('c')], promptTokenIds: [1, 2, 9, 4], ...call });
    expect(trajectory.histories).toHaveLength(call.promptTokenIds ? 1 : 2);
    return trajectory.observations.rewrittenHistories;
  };
  expect(rewrittenBy({})).toBe(1);
  expect(rewrittenBy({ promptTokenIds: [1, 2, 3, 9, 4] })).toBe(0);
  expect(rewrittenBy({ messages: [user('a'), assistant('b'), user('c')] })).toBe(0);
  expect(rewrittenBy({ messages: [user('b'), sent, user('c')] })).toBe(0);
  expect(rewrittenBy({ messages: [user('a')] })).toBe(0);
  expect(rewrittenBy({ tools })).toBe(0);
});

test('tools and forms that an agent library makes anew for each call are kept once', () => {
  const trajectory = new Trajectory();
  const made = () => ({
    tools: [{ type: 'function', function: { name: 'look' } }] satisfies Tool[],
    askedForm: { tool_choice: 'required' } as const,
  });
  record(trajectory, { ...made(), promptTokenIds: [1, 2] });
  record(trajectory, {
    ...made(),
    messages: [user('a'), assistant('b'), user('c')],
    promptTokenIds: [1, 2, 3, 9, 4],
  });
  trajectory.seal();
  const [first, second] = trajectory.log.calls;
  expect(trajectory.histories).toHaveLength(1);
  expect(second?.tools).toEqual(made().tools);
  expect(second?.tools).toBe(first?.tools);
  expect([first?.askedForm, second?.askedForm]).toEqual([made().askedForm, undefined]);
});

test('histories are in the order in which their first calls began, whichever was answered first', () => {
  const trajectory = new Trajectory();
  const first = trajectory.startCall();
  const second = trajectory.startCall();
  const call = { messages: [user('a')], tools: undefined, model: 'm' };
  trajectory.record({
    ...call,
    index: second.index,
    promptTokenIds: [2],
    choice: choice('second', [9]),
  });
  trajectory.record({
    ...call,
    index: first.index,
    promptTokenIds: [1],
    choice: choice('first', [9]),
  });
  expect(trajectory.choices.map(({ message }) => message.content)).toEqual(['first', 'second']);
});

test('the policy versions are those of the first and the last call', () => {
  const trajectory = new Trajectory();
  record(trajectory, { promptTokenIds: [1], model: 'e/p/n:step4' });
  record(trajectory, { promptTokenIds: [2], model: 'e/p/n:step5' });
  expect(trajectory.toRecord()).toMatchObject({ initial_policy_version: 4, final_policy_version: 5 });
});

test('a step other than the pinned one is an error and stays one', () => {
  const trajectory = new Trajectory({ policy: 'e/p/n:step2' });
  expect(() => record(trajectory, { promptTokenIds: [1], model: 'e/p/n:step3' })).toThrow(TrajectoryError);
  expect(trajectory.violation?.code).toBe('unexpected_call_other_step');
  expect(trajectory.histories).toHaveLength(0);
});

test('a choice without token ids is an error', () => {
  const trajectory = new Trajectory();
  expect(() => record(trajectory, { promptTokenIds: [] })).toThrow(/return_token_ids/);
});

test('with `warn`, an unexpected call is left out and logged', () => {
  const trajectory = new Trajectory({ policy: 'e/p/n:step2', onUnexpectedCall: 'warn' });
  record(trajectory, { promptTokenIds: [1], model: 'base' });
  expect(trajectory.histories).toHaveLength(0);
  expect(trajectory.metrics).toEqual({ unexpected_calls: 1 });
  expect(trajectory.logs).toHaveLength(1);
});
