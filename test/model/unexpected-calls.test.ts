import { once } from 'node:events';
import { generateText } from 'ai';
import { defineEnvironment, ModelHandle, runGroups, Trajectory, TrajectoryError } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { type Reply, startFakeService } from './fake-service.ts';

const name = 'local/shop/desk:step3';

async function open(reply: Reply = {}) {
  const service = await startFakeService({ policy: () => ({ text: 'x', ...reply }) });
  return { service, model: new ModelHandle({ client: service.client, name }) };
}

const ask = (model: Pick<ModelHandle, 'languageModel'>) =>
  generateText({ model: model.languageModel, prompt: 'a', maxRetries: 0 });

/** Models that answer a call of a rollout pinned to step 3, and the resulting error code. */
const answers = [
  { reason: 'base_model', reply: { model: 'martingale-tiny' }, says: /base model "martingale-tiny"/ },
  {
    reason: 'other_step',
    reply: { model: 'local/shop/desk:step4' },
    says: /Another step, "local\/shop\/desk:step4"/,
  },
  { reason: 'other_step', reply: { model: 'local/shop/desk' }, says: /Another step/ },
  { reason: 'other_model', reply: { model: 'local/shop/judge:step3' }, says: /Another model/ },
  { reason: 'token_ids_missing', reply: { withoutTokenIds: true }, says: /return_token_ids/ },
] as const;

describe.each(answers)('$reason, $reply', ({ reason, reply, says }) => {
  test('error: the call throws, and the rollout fails even if the agent catches it', async () => {
    const { service, model } = await open(reply);
    await using _ = service;
    const trajectory = new Trajectory({ policy: name });
    const failure = await runInTrajectory(trajectory, () => ask(model)).then(
      undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(TrajectoryError);
    expect(failure).toMatchObject({
      code: `unexpected_call_${reason}`,
      message: expect.stringMatching(says),
    });
    expect(trajectory.histories).toHaveLength(0);

    const swallowing = environment(async (given) => {
      await ask(given).catch(() => undefined);
    });
    const { groups } = await runGroups({
      environment: swallowing,
      scenarios: [{}],
      rolloutsPerGroup: 1,
      model,
    });
    expect(groups[0]?.rollouts[0]).toMatchObject({
      status: 'failed',
      failure: { code: `unexpected_call_${reason}` },
    });
  });

  test('warn: the agent gets its answer, and the call is left out, counted and logged', async () => {
    const { service, model } = await open(reply);
    await using _ = service;
    const trajectory = new Trajectory({ policy: name, onUnexpectedCall: 'warn' });
    await runInTrajectory(trajectory, async () => {
      expect((await ask(model)).text).toBe('x');
      await ask(model);
    });
    expect(trajectory.choices).toHaveLength(0);
    expect(trajectory.metrics.unexpected_calls).toBe(2);
    expect(trajectory.logs).toEqual([expect.stringMatching(says), expect.stringMatching(says)]);
    expect(trajectory.violation).toBeUndefined();
  });
});

describe('outside a rollout', () => {
  afterEach(() => vi.restoreAllMocks());

  test('a handle from outside a rollout answers without a warning', async () => {
    const { service, model } = await open();
    await using _ = service;
    const warned = vi.spyOn(process, 'emitWarning');
    expect((await ask(model)).text).toBe('x');
    expect(warned).not.toHaveBeenCalled();
  });

  test('the handle of a rollout throws, with `error`', async () => {
    const { service, model } = await open();
    await using _ = service;
    const given = await handleOfARollout(model, 'error');
    await expect(ask(given)).rejects.toMatchObject({
      code: 'unexpected_call_outside_rollout',
      message: expect.stringContaining(name),
    });
    expect(service.requests).toHaveLength(1);
  });

  test('the handle of a rollout answers, with `warn`, and warns once for all rollouts', async () => {
    const { service, model } = await open();
    await using _ = service;
    const given = [await handleOfARollout(model, 'warn'), await handleOfARollout(model, 'warn')];
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    for (const handle of [...given, ...given]) expect((await ask(handle)).text).toBe('x');
    expect(warned).toHaveBeenCalledOnce();
    expect(warned).toHaveBeenCalledWith(expect.stringContaining(name), {
      type: 'MartingaleWarning',
      code: 'martingale_outside_rollout',
    });
  });

  test('the warning is a process warning', async () => {
    const { service } = await open();
    await using _ = service;
    const heard = once(process, 'warning');
    await ask(
      new ModelHandle({ client: service.client, name: 'local/shop/other' }).with({ outsideRollout: 'warn' }),
    );
    expect(await heard).toMatchObject([{ code: 'martingale_outside_rollout' }]);
  });

  test('the user’s own setting of a handle applies in rollouts too, and judges are never outside', async () => {
    const { service, model } = await open();
    await using _ = service;
    const own = model.with({ outsideRollout: 'answer' });
    expect((await ask(await handleOfARollout(own, 'error'))).text).toBe('x');
    expect((await ask(model.with({ outsideRollout: 'error', record: false }))).text).toBe('x');
  });
});

function environment(rollout: (model: Pick<ModelHandle, 'languageModel'>) => Promise<unknown>) {
  return defineEnvironment({
    name: 'asking',
    scenario: z.object({}),
    rollout: async ({ model }) => {
      await rollout(model);
    },
    rewards: { done: () => 1 },
  });
}

/** The model handle of a rollout, kept after its end. */
async function handleOfARollout(model: ModelHandle, onUnexpectedCall: 'error' | 'warn') {
  let kept: Pick<ModelHandle, 'languageModel'> | undefined;
  const { counts } = await runGroups({
    environment: environment(async (given) => {
      kept = given;
      await ask(given);
    }),
    scenarios: [{}],
    rolloutsPerGroup: 1,
    model,
    onUnexpectedCall,
  });
  expect(counts.completed).toBe(1);
  if (!kept) throw new TypeError('The rollout was given no model.');
  return kept;
}
