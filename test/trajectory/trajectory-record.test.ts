import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Choice, Message, Tool } from '../../src/contract/index.ts';
import {
  fromTrajectoryRecord,
  sampledMessage,
  Trajectory,
  type TrajectoryRecord,
  toTrajectoryRecord,
} from '../../src/trajectory/index.ts';
import { render } from '../model/fake-service.ts';

const policy = 'e/p/n:step4';
const tool = (name: string): Tool => ({ type: 'function', function: { name, parameters: {} } });

const throughDisk = (trajectory: Trajectory): Trajectory => {
  const record: TrajectoryRecord = JSON.parse(JSON.stringify(toTrajectoryRecord(trajectory)));
  return fromTrajectoryRecord(record);
};

/** Everything that a trajectory shows, as JSON. */
const shown = (trajectory: Trajectory) => ({
  ...JSON.parse(JSON.stringify(trajectory)),
  body: JSON.stringify(trajectory.reward === null ? trajectory.toRecord() : trajectory.toBody()),
  histories: trajectory.histories.map((history) => [history.firstCall, history.toBody()]),
  choices: trajectory.choices,
  calls: trajectory.calls,
  recorded: trajectory.log.calls.map(({ tools = null, ...call }) => ({ ...call, tools })),
  stepReward: trajectory.stepReward,
  policyVersions: trajectory.policyVersions,
  sampledTokens: trajectory.sampledTokens,
  promptTokens: trajectory.promptTokens,
  usage: trajectory.usage,
  violation: trajectory.violation?.message,
  logs: trajectory.logs,
});

interface Turn {
  from: number;
  user: string;
  sampled: string;
  asText: boolean;
  otherModel: boolean;
  tool: string | undefined;
  isAnswered: boolean;
}

/** A trajectory of calls that go on from one another, begin anew, or come back edited. */
function build(turns: readonly Turn[]): Trajectory {
  const trajectory = new Trajectory({ seed: 7 });
  const conversations: Message[][] = [[]];
  for (const { from, user, sampled, asText, otherModel, tool: name, isAnswered } of turns) {
    const base = conversations[from % conversations.length] ?? [];
    const messages: Message[] = [...base, { role: 'user', content: user }];
    const { index } = trajectory.startCall();
    if (!isAnswered) continue;
    const choice: Choice = {
      index: 0,
      message: {
        role: 'assistant',
        content: sampled,
        tool_calls: [{ id: `c${index}`, type: 'function', function: { name: 'f', arguments: '{"1":2}' } }],
      },
      finish_reason: 'stop',
      token_ids: [...[...sampled].map((character) => character.codePointAt(0) ?? 0), 1_000_000],
      sampling: { temperature: 1, top_p: 1, top_k: -1, min_p: 0, constraint: null, logit_bias: { 9: -1 } },
    };
    trajectory.record({
      index,
      messages,
      tools: name === undefined ? undefined : [tool(name)],
      choice,
      promptTokenIds: render(messages),
      model: otherModel ? 'e/p/n:step5' : policy,
    });
    conversations.push([...messages, sampledMessage(choice, { tokenIds: !asText })]);
  }
  return trajectory;
}

const turnArbitrary = fc.record({
  from: fc.nat({ max: 9 }),
  user: fc.string({ maxLength: 3 }),
  sampled: fc.string({ minLength: 1, maxLength: 3, unit: 'binary' }),
  asText: fc.boolean(),
  otherModel: fc.boolean(),
  tool: fc.option(fc.constantFrom('look', 'find'), { nil: undefined }),
  isAnswered: fc.boolean(),
});

test('whatever was recorded comes back from disk, and its body is the same to the byte', () => {
  fc.assert(
    fc.property(
      fc.array(turnArbitrary, { maxLength: 12 }),
      fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }).map((reward) => reward + 0)),
      fc.dictionary(fc.string(), fc.oneof(fc.integer(), fc.boolean())),
      fc.option(fc.string()),
      fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { maxLength: 3 }),
      (turns, reward, metrics, stopReason, stepRewards) => {
        const trajectory = build(turns);
        Object.assign(trajectory.metrics, metrics);
        Object.assign(trajectory.metadata, { group: 3, note: 'x', none: null });
        trajectory.logs.push('seen');
        trajectory.reward = reward;
        trajectory.stopReason = stopReason;
        const { calls } = trajectory;
        if (calls.length > 0) {
          for (const [at, step] of stepRewards.entries())
            trajectory.rewardCall(step, { call: calls[at % calls.length]?.index ?? 0 });
          trajectory.creditCalls(new Map([[calls[0]?.index ?? 0, 0.25]]));
        }
        trajectory.close();
        expect(shown(throughDisk(trajectory))).toEqual(shown(trajectory));
      },
    ),
    { seed: 20261121, numRuns: 300 },
  );
});

describe('a trajectory that was read back', () => {
  const turn = { from: 0, asText: false, otherModel: false, tool: undefined, isAnswered: true };
  const conversation = () =>
    build([
      { ...turn, user: 'a', sampled: 'long reply' },
      { ...turn, from: 1, user: 'b', sampled: 'another' },
    ]);

  test('is closed', () => {
    expect(() => throughDisk(conversation()).startCall()).toThrow(
      expect.objectContaining({ code: 'trajectory_closed' }),
    );
  });

  test('shares its choices between calls and histories, so that credit given later trains', () => {
    const trajectory = throughDisk(conversation());
    trajectory.creditCalls(new Map([[1, 0.5]]));
    trajectory.reward = 1;
    expect(trajectory.toBody().messages_and_choices.at(-1)).toMatchObject({ credited_reward: 0.5 });
  });

  test('has each sampled token on disk once', () => {
    const written = JSON.stringify(toTrajectoryRecord(conversation()));
    const ids = JSON.stringify([...'long reply'].map((character) => character.codePointAt(0))).slice(1, -1);
    expect(written.split(ids)).toHaveLength(2);
  });

  test('keeps its own stop_reason beside the one that a limit gave it', () => {
    const trajectory = conversation();
    trajectory.metadata.stop_reason = 'solved';
    trajectory.stopReason = 'turn_limit';
    trajectory.reward = 0;
    const again = throughDisk(trajectory);
    expect(again.metadata).toEqual({ stop_reason: 'solved' });
    expect(again.toBody().metadata).toEqual({ stop_reason: 'turn_limit' });
  });

  test('remembers the call that broke the rules', () => {
    const trajectory = new Trajectory({ policy });
    const { index } = trajectory.startCall();
    const choice: Choice = {
      index: 0,
      message: { role: 'assistant', content: 'x' },
      finish_reason: 'stop',
      token_ids: [1],
    };
    const call = { index, messages: [], tools: undefined, choice, promptTokenIds: [1], model: 'base' };
    expect(() => trajectory.record(call)).toThrow(/pinned/);
    expect(throughDisk(trajectory).violation).toMatchObject({ code: 'unexpected_call_base_model' });
  });

  test('of an external model has its calls, with their messages and the provider’s token counts', () => {
    const trajectory = new Trajectory();
    const call = (messages: Message[], content: string) => {
      const { index } = trajectory.startCall();
      const choice: Choice = { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' };
      const counts = { promptTokens: 10 + index, sampledTokens: 3 };
      trajectory.recordMessages({
        index,
        messages,
        tools: [tool('f')],
        choice,
        model: 'b',
        ...counts,
      });
    };
    const opening: Message = { role: 'user', content: 'a' };
    call([opening], 'one');
    call([{ role: 'user', content: 'aside' }], 'two');
    call(
      [opening, { role: 'assistant', content: 'one', tool_calls: [] }, { role: 'user', content: 'b' }],
      'three',
    );
    trajectory.rewardCall(0.5, { call: 1 });
    trajectory.reward = 1;
    trajectory.close();
    expect(trajectory.histories).toHaveLength(2);
    expect(shown(throughDisk(trajectory))).toEqual(shown(trajectory));
    expect(throughDisk(trajectory).externalModel).toBe('b');
  });
});
