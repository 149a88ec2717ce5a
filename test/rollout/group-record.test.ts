import { generateText } from 'ai';
import { defineEnvironment, ModelHandle, type RolloutGroup, runGroups } from 'martingale';
import { fromGroupRecord, type GroupRecord, parseGroupRecord, toGroupRecord } from 'martingale/records';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startFakeService } from '../model/fake-service.ts';

const scenario = z.object({ question: z.string(), outcome: z.unknown().optional() });
let service: Awaited<ReturnType<typeof startFakeService>>;

beforeAll(async () => {
  service = await startFakeService({ policy: ({ messages }) => ({ text: `${messages.length}!` }) });
});
afterAll(() => service[Symbol.asyncDispose]());

const environment = defineEnvironment({
  name: 'questions',
  scenario,
  rollout: async ({ scenario: { question, outcome }, model, trajectory, seed }) => {
    const { text } = await generateText({ model: model.languageModel, prompt: question });
    trajectory.logs.push(`seed ${seed}`);
    if (seed % 3 === 0) throw new RangeError(`no answer to ${question}`);
    return outcome ?? { text, none: undefined };
  },
  rewards: { length: ({ trajectory }) => trajectory.sampledTokens },
});

async function gather(scenarios: z.input<typeof scenario>[], rolloutsPerGroup = 4): Promise<RolloutGroup[]> {
  const model = new ModelHandle({ client: service.client, name: 'e/p/n:step2' });
  return (await runGroups({ environment, scenarios, rolloutsPerGroup, model })).groups;
}

const throughDisk = (group: RolloutGroup): RolloutGroup =>
  fromGroupRecord(parseGroupRecord(JSON.stringify(toGroupRecord(group))));

test('a group is restored from its line: rollouts, failures and outcomes, and its exact body', async () => {
  const groups = await gather([{ question: 'a' }, { question: 'b' }]);
  expect(groups.flatMap(({ rollouts }) => rollouts.map(({ status }) => status))).toContain('failed');
  for (const group of groups) {
    const again = throughDisk(group);
    expect(JSON.stringify(again.toTrajectoryGroup().toBody())).toBe(
      JSON.stringify(group.toTrajectoryGroup().toBody()),
    );
    expect(again.index).toBe(group.index);
    expect(again.scenario).toEqual(group.scenario);
    const shown = ({ rollouts }: RolloutGroup) =>
      rollouts.map(({ trajectory, ...rollout }) => ({ ...rollout, trajectory: trajectory.toRecord() }));
    expect(shown(again)).toEqual(shown(group));
  }
});

test('a line still has the fields that earlier readers use', async () => {
  const [group] = await gather([{ question: 'a' }], 12);
  if (!group) throw new TypeError('no group');
  const line: GroupRecord = JSON.parse(JSON.stringify(toGroupRecord(group)));
  const failed = group.rollouts.filter(({ status }) => status === 'failed');
  expect(line).toMatchObject({ scenario: { question: 'a' }, metadata: { group: 0 } });
  expect(line.trajectories.map(({ reward }) => reward)).toEqual(
    group.trajectories.map(({ reward }) => reward),
  );
  expect(line.failures).toMatchObject(
    failed.map(({ index, seed }) => ({
      rollout: index,
      status: 'failed',
      code: 'RangeError',
      message: 'no answer to a',
      trajectory: { logs: [`seed ${seed}`] },
    })),
  );
  expect(line.exceptions).toHaveLength(failed.length);
});

describe('an outcome that JSON would change is omitted with the reason', () => {
  class Board {}
  const cyclic: { self?: object } = {};
  cyclic.self = cyclic;
  test.each([
    [{ when: new Date(0) }, 'it.when is an instance of Date'],
    [new Board(), 'it is an instance of Board'],
    [{ scores: [1, Number.NaN] }, 'it.scores[1] is NaN'],
    [[undefined], 'it[0] is undefined'],
    [{ big: 1n }, 'it.big is a bigint'],
    [cyclic, 'it.self contains itself'],
    [{ toJSON: () => 1 }, 'it has toJSON'],
  ])('%o', async (outcome, missing) => {
    const [group] = await gather([{ question: 'a', outcome }], 3);
    if (!group) throw new TypeError('no group');
    const { rollouts, scenario_lost: lost } = toGroupRecord(group);
    const completed = rollouts.filter(({ status }) => status === 'completed');
    expect(completed).not.toHaveLength(0);
    for (const rollout of completed) {
      expect(rollout).toMatchObject({ outcome_missing: missing });
      expect(rollout).not.toHaveProperty('outcome');
    }
    expect(lost).toBe(missing.replace('it', 'it.outcome'));
    expect(() => throughDisk(group)).not.toThrow();
  });
});

test.each([
  ['torn', '{"group":0,"scen'],
  ['of another kind', '{"group":0}'],
])('a line that is %s is refused', (_, line) => {
  expect(() => parseGroupRecord(line)).toThrow(expect.objectContaining({ code: 'invalid_group_record' }));
});
