import { generateText, tool } from 'ai';
import {
  createClient,
  defineEnvironment,
  ModelHandle,
  type Opponents,
  opponents,
  policy,
  type RolloutGroup,
  runGroups,
} from 'martingale';
import { scriptedModel } from 'martingale/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { fromGroupRecords, parseGroupRecord, toGroupRecords } from '../../../src/rollout/index.ts';
import { game } from './game.ts';

/** Names the number of the seat in the plan; every second call of a rollout's seat names one more. */
const naming = (plan: Record<string, string>, name = 'model') =>
  scriptedModel(({ messages }) => plan[String(messages[0]?.content).split(' ')[0] ?? ''] ?? '0', { name });

const seatsOf = (group: RolloutGroup) => group.bySeat().map(({ seat }) => seat?.name);
const rewardsOf = (group: RolloutGroup) => group.trajectories.map(({ reward }) => reward);

async function run(options: Partial<Parameters<typeof runGroups<typeof game.scenario, unknown>>[0]>) {
  const { groups, counts } = await runGroups({
    environment: game,
    scenarios: [{ rounds: 1 }],
    rolloutsPerGroup: 3,
    model: naming({ first: '2', second: '1' }),
    ...options,
  });
  const [group] = groups;
  if (!group) throw new TypeError('There is no group.');
  return { group, groups, counts };
}

describe('a rollout with seats', () => {
  it('records each seat in a trajectory of its own, with its reward and metrics', async () => {
    const { group, counts } = await run({ scenarios: [{ rounds: 2 }] });
    expect(counts).toEqual({ dispatched: 3, completed: 3, failed: 0, cancelled: 0 });
    const [rollout] = group.rollouts;
    const seen = rollout?.seats?.map(({ seat, trains, trajectory }) => ({
      seat,
      trains,
      reward: trajectory.reward,
      metrics: trajectory.metrics,
      prompts: trajectory.calls.map(({ messages }) => messages[0]?.content),
      metadata: trajectory.metadata,
    }));
    expect(seen).toEqual([
      {
        seat: 'first',
        trains: true,
        reward: 1,
        metrics: { won: 1, named: 4 },
        prompts: ['first 0', 'first 1'],
        metadata: expect.objectContaining({ group: 0, rollout: 0, seat: 'first' }),
      },
      {
        seat: 'second',
        trains: true,
        reward: 0,
        metrics: { won: 0, named: 2 },
        prompts: ['second 0', 'second 1'],
        metadata: expect.objectContaining({ group: 0, rollout: 0, seat: 'second' }),
      },
    ]);
    expect(rollout).toMatchObject({ status: 'completed', reward: 0.5 });
  });

  it('gives seats different seeds, so that they do not sample alike', async () => {
    const seeds: unknown[] = [];
    await run({
      model: scriptedModel(({ seed }) => {
        seeds.push(seed);
        return '1';
      }),
    });
    expect(new Set(seeds).size).toBe(6);
  });

  it('compares a seat with the same seat only', async () => {
    const { group } = await run({});
    expect(seatsOf(group)).toEqual(['first', 'second']);
    expect(group.bySeat().map(rewardsOf)).toEqual([
      [1, 1, 1],
      [0, 0, 0],
    ]);
    expect(group.bySeat().map(({ index }) => index)).toEqual([0, 1]);
    expect(group.bySeat().map((one) => one.toTrajectoryGroup().metadata)).toEqual([
      { group: 0, seat: 'first' },
      { group: 0 + 1, seat: 'second' },
    ]);
    expect(() => group.toTrajectoryGroup()).toThrow(/bySeat/);
  });

  it('records agents of two seats that run at once where they belong', async () => {
    const both = defineEnvironment({
      name: 'both',
      scenario: z.object({}),
      seats: ['left', 'right'],
      rollout: async ({ seats }) => {
        const speak = (prompt: string) => generateText({ model: policy(), prompt });
        await Promise.all([
          seats.left.run(async () => {
            await speak('left 1');
            await speak('left 2');
          }),
          seats.right.run(() => speak('right 1')),
        ]);
      },
      rewards: { calls: ({ trajectory }) => trajectory.calls.length },
    });
    const { groups } = await runGroups({
      environment: both,
      scenarios: [{}],
      rolloutsPerGroup: 1,
      model: scriptedModel(({ messages }) => String(messages[0]?.content)),
    });
    const texts = groups[0]?.rollouts[0]?.seats?.map(({ trajectory }) =>
      trajectory.calls.map(({ choice }) => choice.message.content),
    );
    expect(texts).toEqual([['left 1', 'left 2'], ['right 1']]);
  });

  it('counts the tools of an agent in the seat that runs it', async () => {
    const tooled = defineEnvironment({
      name: 'tooled',
      scenario: z.object({}),
      seats: ['user', 'clerk'],
      rollout: async ({ seats }) => {
        const look = tool({ inputSchema: z.object({}), execute: () => 'found' });
        await seats.clerk.run(() => generateText({ model: policy(), prompt: 'look', tools: { look } }));
        await generateText({ model: seats.user.model.languageModel, prompt: 'thanks' });
      },
      rewards: { one: () => 1 },
    });
    const { groups } = await runGroups({
      environment: tooled,
      scenarios: [{}],
      rolloutsPerGroup: 1,
      model: scriptedModel(({ messages }) =>
        messages[0]?.content === 'look'
          ? { toolCalls: [{ name: 'look', arguments: {} }] }
          : 'you are welcome',
      ),
    });
    const tools = groups[0]?.rollouts[0]?.seats?.map(({ trajectory }) => trajectory.observations.tools);
    expect(tools).toEqual([{}, { look: { uses: 1, errors: 0, invalid: 0 } }]);
  });

  it('scores a seat with the rewards that name it, and fails for all seats if one of them throws', async () => {
    const roles = (breaks: boolean) =>
      defineEnvironment({
        name: 'roles',
        scenario: z.object({}),
        seats: ['user', 'clerk'],
        rollout: async ({ seats }) => {
          for (const seat of [seats.user, seats.clerk])
            await generateText({ model: seat.model.languageModel, prompt: seat.name });
        },
        rewards: {
          served: { seats: ['clerk'], weight: 2, reward: () => 1 },
          polite: {
            seats: ['user'],
            reward: ({ seat }) => {
              expect(seat).toBe('user');
              if (breaks) throw new RangeError('no such tone');
              return 3;
            },
          },
        },
      });
    const model = scriptedModel(() => 'hello');
    const settings = { scenarios: [{}], rolloutsPerGroup: 1, model };
    const whole = await runGroups({ environment: roles(false), ...settings });
    const seats = whole.groups[0]?.rollouts[0]?.seats ?? [];
    expect(seats.map(({ trajectory: { reward, metrics } }) => ({ reward, metrics }))).toEqual([
      { reward: 3, metrics: { polite: 3 } },
      { reward: 2, metrics: { served: 1 } },
    ]);
    const broken = await runGroups({ environment: roles(true), ...settings });
    const [rollout] = broken.groups[0]?.rollouts ?? [];
    expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'reward_failed' } });
    expect(rollout?.seats?.map(({ trajectory }) => trajectory.reward)).toEqual([null, null]);
    expect(broken.groups[0]?.trajectories).toEqual([]);
  });

  it('adds group rewards and credit within each seat', async () => {
    const seen: unknown[] = [];
    const environment = defineEnvironment({
      name: 'ranked',
      scenario: z.object({}),
      seats: ['a', 'b'],
      rollout: async ({ seats, seed }) => {
        for (const seat of [seats.a, seats.b])
          await generateText({ model: seat.model.languageModel, prompt: `${seat.name} ${seed % 7}` });
      },
      groupRewards: {
        rank: ({ members, seat }) => {
          seen.push([seat, members.map(({ trajectory }) => trajectory.metadata.seat)]);
          return members.map((_, at) => (seat === 'a' ? at : 10 * at));
        },
      },
      credit: ({ calls, reward, seat }) => calls.map(() => reward + (seat === 'a' ? 0 : 100)),
    });
    const { groups } = await runGroups({
      environment,
      scenarios: [{}],
      rolloutsPerGroup: 2,
      model: scriptedModel(() => 'x'),
    });
    expect(seen).toEqual([
      ['a', ['a', 'a']],
      ['b', ['b', 'b']],
    ]);
    const bySeat = groups[0]?.bySeat() ?? [];
    expect(bySeat.map(rewardsOf)).toEqual([
      [0, 1],
      [0, 10],
    ]);
    const credits = bySeat.map(({ trajectories }) =>
      trajectories.flatMap(({ choices }) => choices.map((choice) => choice.credited_reward)),
    );
    expect(credits).toEqual([
      [0, 1],
      [100, 110],
    ]);
    expect(groups[0]?.rollouts.map((rollout) => rollout.status === 'completed' && rollout.reward)).toEqual([
      0, 5.5,
    ]);
  });

  it('holds limits for each seat, and gives the outcome of a rollout that one of them ended', async () => {
    const short = defineEnvironment({
      name: 'short',
      scenario: z.object({}),
      limits: { turns: 2 },
      seats: ['a', 'b'],
      rollout: async ({ seats }) => {
        for (let turn = 0; turn < 2; turn++)
          for (const seat of [seats.a, seats.b])
            await generateText({ model: seat.model.languageModel, prompt: 'go', maxRetries: 0 });
        await generateText({ model: seats.b.model.languageModel, prompt: 'more', maxRetries: 0 });
        return 'whole';
      },
      atLimit: ({ reason, seats }) => `${reason} of ${Object.keys(seats)}`,
      rewards: { one: () => 1 },
    });
    const { groups } = await runGroups({
      environment: short,
      scenarios: [{}],
      rolloutsPerGroup: 1,
      model: scriptedModel(() => 'x'),
    });
    expect(groups[0]?.rollouts[0]).toMatchObject({ status: 'completed', outcome: 'turn_limit of a,b' });
  });
});

describe('a seat that another model plays', () => {
  it('is recorded and scored, and is not trained on', async () => {
    const strong = naming({ second: '9' }, 'strong');
    const { group } = await run({ seats: { second: strong } });
    expect(group.trajectories.map(({ metadata }) => metadata)).toEqual(
      [0, 1, 2].map((rollout) =>
        expect.objectContaining({ rollout, seat: 'first', against: 'second: strong' }),
      ),
    );
    expect(group.rollouts.map(({ status }) => status)).toEqual(['completed', 'completed', 'completed']);
    const [first, second] = group.bySeat();
    expect(first && rewardsOf(first)).toEqual([0, 0, 0]);
    expect(first).toMatchObject({ isTrainable: true, seat: { model: 'model', trains: true } });
    expect(second).toMatchObject({ isTrainable: false, seat: { model: 'strong', trains: false } });
    expect(second?.droppedBecause?.code).toBe('seat_does_not_train');
    expect(second && rewardsOf(second)).toEqual([1, 1, 1]);
  });

  it('has no trajectory to train on where it had no turn', async () => {
    const early = defineEnvironment({
      name: 'early',
      scenario: z.object({}),
      seats: ['a', 'b'],
      rollout: async ({ seats, seed }) => {
        await generateText({ model: seats.a.model.languageModel, prompt: 'a' });
        if (seed % 2 === 0) await generateText({ model: seats.b.model.languageModel, prompt: 'b' });
        return seed % 2;
      },
      rewards: { one: () => 1 },
    });
    const { groups } = await runGroups({
      environment: early,
      scenarios: [{}],
      rolloutsPerGroup: 8,
      model: scriptedModel(() => 'x'),
    });
    const odd = groups[0]?.rollouts.map(({ seed }) => seed % 2 === 1) ?? [];
    expect(new Set(odd).size).toBe(2);
    const [a, b] = groups[0]?.bySeat() ?? [];
    expect(a?.rollouts.map(({ status }) => status)).toEqual(odd.map(() => 'completed'));
    expect(b?.rollouts.map(({ status }) => status)).toEqual(
      odd.map((isOdd) => (isOdd ? 'cancelled' : 'completed')),
    );
    expect(b?.toTrajectoryGroup().exceptions).toEqual([]);
  });

  it.each([
    [
      { third: naming({}) },
      /`seats.third`: environment "higher" has no seat "third". It has the seats first, second/,
    ],
    [{ first: naming({}), second: naming({}) }, /Every seat is given/],
    [{ first: 'strong' }, /`seats.first` is "strong".*Pass a model/],
  ])('is refused if it cannot be: %o', async (seats, message) => {
    await expect(run({ seats: Object(seats) })).rejects.toThrow(message);
  });

  it('is named if its calls fail', async () => {
    const broken = scriptedModel(
      () => {
        throw new Error('opponent down');
      },
      { name: 'broken' },
    );
    const { group } = await run({ seats: { second: broken } });
    const failures = group.rollouts.map((rollout) => rollout.status === 'failed' && rollout.failure.message);
    expect(failures).toEqual(
      Array(3).fill(expect.stringMatching(/^Seat "second", played by broken: .*opponent down/)),
    );
  });

  it('is refused in an environment without seats', async () => {
    const alone = defineEnvironment({
      name: 'alone',
      scenario: z.object({}),
      rollout: () => 1,
      rewards: { one: () => 1 },
    });
    const model = naming({});
    const settings = { environment: alone, scenarios: [{}], rolloutsPerGroup: 1, model };
    await expect(runGroups({ ...settings, seats: { x: model } })).rejects.toThrow(
      /It has no seats: name them/,
    );
  });
});

describe('a pool of opponents', () => {
  const [strong, weak] = [naming({}, 'strong'), naming({}, 'weak')];
  const policy = new ModelHandle({
    client: createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: 'x' }),
    name: 'a/b/c:step9',
  });
  const drawn = (pool: Opponents) =>
    new Set(Array.from({ length: 300 }, (_, seed) => pool.draw({ policy, seed }).name));
  const past = { step: 10, policySteps: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], results: [] };

  it('draws the newest checkpoint, every so many earlier ones, and fixed players, by their shares', () => {
    const pool = opponents({ everySteps: 3, keep: 2, players: [{ model: strong, weight: 2 }] }).after(past);
    expect(drawn(pool)).toEqual(new Set(['a/b/c:step9', 'a/b/c:step6', 'strong']));
    expect(pool.checkpoints).toEqual([6, 9]);
    const shares = Array.from({ length: 4000 }, (_, seed) => pool.draw({ policy, seed }).name);
    expect(shares.filter((name) => name === 'strong').length / 4000).toBeCloseTo(0.5, 1);
    expect(pool.draw({ policy, seed: 5 }).name).toBe(pool.draw({ policy, seed: 5 }).name);
  });

  it('leaves out who is beaten, and plays the newest checkpoint when nobody is left', () => {
    const results = [{ seat: 'o', model: 'weak', reward: 0.9 }];
    const pool = opponents({
      newest: 0,
      older: 0,
      players: [{ model: strong }, { model: weak }],
      beatenAt: 0.8,
    });
    expect(drawn(pool.after({ ...past, results }))).toEqual(new Set(['strong']));
    const all = [...results, { seat: 'o', model: 'strong', reward: 0.8 }];
    expect(drawn(pool.after({ ...past, results: all }))).toEqual(new Set(['a/b/c:step9']));
  });

  it.each([
    [{ newest: -1 }, /`newest` is -1/],
    [{ newest: 0, older: 0 }, /nobody to draw/],
    [{ players: [{ model: strong, weight: Number.NaN }] }, /`players\[0\].weight` is NaN/],
    [
      { players: [{ model: strong }, { model: strong }] },
      /`players\[1\].model` is .*Another player has this name/,
    ],
    [{ everySteps: 0 }, /`everySteps` is 0/],
    [{ beatenAt: Number.NaN }, /`beatenAt` is NaN/],
    [{ olders: 1 }, /no option `olders`/],
  ])('refuses %o', (options, message) => {
    expect(() => opponents(Object(options))).toThrow(message);
  });
});

describe('records of a group with seats', () => {
  const written = (group: RolloutGroup) =>
    toGroupRecords(group).map((record) => parseGroupRecord(JSON.stringify(record)));

  it('are one for each seat, and restore the group', async () => {
    const { group } = await run({ seats: { second: naming({ second: '9' }, 'strong') } });
    const records = written(group);
    expect(records.map(({ group: index, seat }) => [index, seat?.name])).toEqual([
      [0, 'first'],
      [1, 'second'],
    ]);
    const restored = fromGroupRecords(records).get(0);
    expect(restored && written(restored)).toEqual(records);
    expect(restored?.rollouts.map(({ status }) => status)).toEqual(['completed', 'completed', 'completed']);
    expect(restored?.isTrainable).toBe(true);
  });

  it('that lack a seat do not make a group: it runs again', async () => {
    const { groups } = await run({ scenarios: [{ rounds: 1 }, { rounds: 1 }] });
    const records = groups.flatMap(written);
    expect([...fromGroupRecords(records.slice(0, 3)).keys()]).toEqual([0]);
    expect([...fromGroupRecords(records.toReversed()).keys()].sort()).toEqual([0, 1]);
  });
});

describe('an environment with seats', () => {
  const one = () => 1;
  const base = { name: 'x', scenario: z.object({}), rollout: () => 1 };
  it.each([
    [{ ...base, seats: [], rewards: { one } }, /`seats` is \[\]/],
    [{ ...base, seats: ['a', 'a'], rewards: { one } }, /`seats` is/],
    [{ ...base, seats: ['a'], rewards: { one: { seats: ['b'], reward: one } } }, /for the seats \["b"\]/],
    [{ ...base, rewards: { one: { weight: 1, seats: ['b'], reward: one } } }, /no option `seats`/],
    [
      { name: 'x', scenario: z.object({}), seats: ['a'], prompt: () => 'x', rewards: { one } },
      /`seats` is an option of environments with `rollout`/,
    ],
  ])('refuses options that cannot be: %o', (options, message) => {
    expect(() => defineEnvironment(Object(options))).toThrow(message);
  });
});
