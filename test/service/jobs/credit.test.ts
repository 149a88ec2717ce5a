import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { referenceLoss } from '../../learning/reference-objective.ts';
import { llamaModel, tinyModel } from '../../support/base-models.ts';
import type { Json } from '../harness.ts';
import { type EmbeddedService, startEmbedded } from './embedded-service.ts';
import { type KnownRollouts, sampleRollouts } from './known-rollouts.ts';

const still = 1e-30;
/** One per choice, over all trajectories; null: the trajectory's reward. */
const credits = [0.5, null, 2, -1, null, 0.25, 0, null, 3, 1, 0.5, 1, null, 0.75, null, null];

interface Credited extends Pick<KnownRollouts, 'groups' | 'known'> {
  count: number;
}

function withCredit({ groups, known }: KnownRollouts): Credited {
  let next = 0;
  let count = 0;
  const take = () => {
    const credit = credits[next++ % credits.length] ?? null;
    if (credit !== null) count++;
    return credit;
  };
  const credited = known.map((group) =>
    group.map(({ reward, histories }) => ({
      reward,
      histories: histories.map((tokens) => tokens.map((token) => ({ ...token, credit: take() }))),
    })),
  );
  const explicit = structuredClone(groups);
  explicit.forEach((group, groupIndex) => {
    group.trajectories.forEach((trajectory: Json, index: number) => {
      const histories = [trajectory, ...(trajectory.additional_histories ?? [])];
      histories.forEach((history: Json, number: number) => {
        const tokens = credited[groupIndex]?.[index]?.histories[number] ?? [];
        history.messages_and_choices
          .filter((item: Json) => 'message' in item)
          .forEach((choice: Json, position: number) => {
            choice.credited_reward = tokens[position]?.credit;
          });
      });
    });
  });
  return { groups: explicit, known: credited, count };
}

describe.each([tinyModel, llamaModel])('credit of choices of $baseModel', (tested) => {
  let service: EmbeddedService;
  beforeAll(async () => {
    service = await startEmbedded(tested);
  });
  afterAll(() => service.close());

  describe('in the loss of a job', () => {
    let model: Json;
    let rollouts: KnownRollouts;
    let credited: Credited;
    beforeAll(async () => {
      model = await service.createModel('credited');
      rollouts = await sampleRollouts(service, {
        policy: 'team/desk/credited:step0',
        base: tested.baseModel,
      });
      credited = withCredit(rollouts);
    });
    const train = async (groups: Json[], config: object): Promise<Json> => {
      const [data] = await service.run('training-jobs', {
        ...{ model_id: model.id, trajectory_groups: groups },
        experimental_config: { learning_rate: still, ...config },
      });
      return data;
    };

    it.each([
      {},
      { scale_rewards: false },
      { advantage_balance: 0.4 },
      { normalize_advantages: true },
      { ppo: true, importance_sampling_level: 'sequence' },
      { ppo: true, importance_sampling_level: 'average' },
      { entropy_coefficient: 0.05 },
    ])('matches the formulas with %j', async (config) => {
      const data = await train(credited.groups, config);
      const expected = referenceLoss(credited.known, config);
      expect(Math.abs(data.loss - expected)).toBeLessThan(1e-4);
      expect(Math.abs(expected - referenceLoss(rollouts.known, config))).toBeGreaterThan(2e-3);
      expect(data.num_credited_choices).toBe(credited.count);
    });

    it('is the same without credits, with null credits, and with each reward as credit', async () => {
      const each = (credit: (reward: number) => number | null) => {
        const groups = structuredClone(rollouts.groups);
        for (const { trajectories } of groups)
          for (const trajectory of trajectories)
            for (const { messages_and_choices: items } of [
              trajectory,
              ...(trajectory.additional_histories ?? []),
            ])
              for (const item of items)
                if ('message' in item) item.credited_reward = credit(trajectory.reward);
        return groups;
      };
      const { loss } = await train(rollouts.groups, {});
      const none = await train(
        each(() => null),
        {},
      );
      expect(none).toMatchObject({ loss, num_credited_choices: 0 });
      expect(
        (
          await train(
            each((reward) => reward),
            {},
          )
        ).loss,
      ).toBe(loss);
    });

    it('has the same off-policy diagnostics with any credit: kl_div and clipped_fraction as computed here', async () => {
      const config = { epsilon: 0.1, epsilon_high: 0.2 };
      const data = await train(credited.groups, config);
      const tokens = credited.known.flat().flatMap(({ histories }) => histories.flat());
      const known = tokens.flatMap(({ current, sampled }) => (sampled === null ? [] : [current - sampled]));
      const kl = known.reduce((sum, d) => sum + Math.exp(d) - 1 - d, 0) / known.length;
      expect(kl).toBeGreaterThan(0.01);
      expect(data.kl_div).toBeCloseTo(kl, 3);
      const clipped = tokens.filter(({ current, sampled }) => {
        const ratio = Math.exp(current - (sampled ?? current));
        return ratio < 0.9 || ratio > 1.2;
      }).length;
      expect(clipped).toBeGreaterThan(0);
      expect(data.clipped_fraction).toBeCloseTo(clipped / tokens.length, 9);
    });

    it('refuses values that are not finite numbers, by path', async () => {
      const groups = structuredClone(rollouts.groups);
      groups[0].trajectories[0].messages_and_choices[1].credited_reward = 1e31;
      const creditPath = /trajectory_groups.*0.*trajectories.*0.*messages_and_choices.*1.*credited_reward/s;
      await expect(train(groups, {})).rejects.toThrow(/422/);
      await expect(train(groups, {})).rejects.toThrow(creditPath);
      await expect(train(groups, {})).rejects.toThrow(/1e\+?31|Scale|scale/);
    });
  });

  it('teaches which call was good when the trajectories’ rewards are equal', {
    tags: ['long'],
  }, async () => {
    const letters = { structured_outputs: { regex: '[ab]' } };
    const ask = (question: string) => ({ role: 'user', content: question });
    const reply = async (model: string, messages: Json[], seed: number): Promise<Json> => {
      const { choices } = await service.call('POST', '/v1/chat/completions', {
        ...{ model, messages, ...letters, seed, max_tokens: 1, logprobs: true, return_token_ids: true },
      });
      return choices[0];
    };
    const likelihood = async (model: string): Promise<number> => {
      const { choices } = await service.call('POST', '/v1/chat/completions', {
        ...{ model, messages: [ask('first')], ...letters, max_tokens: 1, logprobs: true, top_logprobs: 5 },
      });
      const found = choices[0].logprobs.content[0].top_logprobs.find(({ token }: Json) => token === 'a');
      return Math.exp(found?.logprob ?? Number.NEGATIVE_INFINITY);
    };
    // The second call loses what the first one wins: all trajectories have the same reward.
    const learn = async (name: string, credit: boolean): Promise<number> => {
      const model = await service.createModel(name);
      for (let step = 0; step < 6; step++) {
        const policy = `team/desk/${name}`;
        const trajectories = [];
        for (let index = 0; index < 8; index++) {
          const seed = 100 * step + index;
          const first = await reply(policy, [ask('first')], seed);
          const later = await reply(
            policy,
            [
              ask('first'),
              { role: 'assistant', content: first.message.content, token_ids: first.token_ids },
              ask('then'),
            ],
            seed,
          );
          const good = first.message.content === 'a' ? 1 : 0;
          trajectories.push({
            messages_and_choices: [
              ask('first'),
              { ...first, ...(credit ? { credited_reward: good } : {}) },
              ask('then'),
              { ...later, ...(credit ? { credited_reward: 1 - good } : {}) },
            ],
            reward: 1,
          });
        }
        await service.run('training-jobs', {
          ...{ model_id: model.id, trajectory_groups: [{ trajectories }] },
          experimental_config: { learning_rate: 0.005 },
        });
      }
      return likelihood(`team/desk/${name}`);
    };
    const before = await likelihood(tested.baseModel);
    const credited = await learn('with-credit', true);
    expect(1 - credited).toBeLessThan(0.75 * (1 - before));
    // All rewards are equal: there is nothing to learn from.
    const without = await learn('without-credit', false);
    // With a checkpoint, log-probabilities after a cached prompt may round.
    if (tested === tinyModel) expect(without).toBe(before);
    else expect(without).toBeCloseTo(before, 6);
  });
});
