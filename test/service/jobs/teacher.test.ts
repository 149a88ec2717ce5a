import { describe, expect, test } from 'vitest';
import { type BaseModel, EngineError } from '../../../src/engines/engine.ts';
import { KeyStore } from '../../../src/service/store/key-store.ts';
import { baseModel, byteTokenizer, door, ScriptedEngine } from '../../support/scripted-engine.ts';
import { callsTo, choice, group, start, trajectory } from '../harness.ts';
import { groups, rl, sampled } from './support.ts';

/** Base models of the same vocabulary, of one with another token, of a longer one, and one that cannot be compared. */
class SeveralBases extends ScriptedEngine {
  override readonly baseModels: BaseModel[] = ['tiny', 'large', 'other', 'longer', 'away'].map((name) => ({
    ...baseModel,
    id: `scripted-${name}`,
  }));

  override tokenizer(id = '') {
    if (id === 'scripted-other')
      return {
        ...byteTokenizer,
        bytes: (token: number) => (token === 98 ? Buffer.from('ß') : byteTokenizer.bytes(token)),
        text: (token: number) => (token === 98 ? 'ß' : byteTokenizer.text(token)),
      };
    return id === 'scripted-longer'
      ? {
          ...byteTokenizer,
          vocabularySize: 280,
          text: (token: number) => (token < 267 ? byteTokenizer.text(token) : 'new'),
        }
      : byteTokenizer;
  }

  checkTeacher(teacher: string, student: string) {
    if (teacher === 'scripted-away')
      throw new EngineError('bad_reference', `${teacher} is far from ${student}`);
  }
}

async function prepared() {
  const service = await start({ engine: new SeveralBases() });
  const model = await service.createModel();
  const teach = (name: string, fields: object = {}, call = service.call) =>
    call('POST', rl, {
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { kl_penalty_coef: 1, kl_penalty_reference_model: name, ...fields },
    });
  const train = async ({ id }: { id: string }) => {
    const { body } = await service.call('POST', rl, { model_id: id, trajectory_groups: groups });
    await service.follow(body.id);
  };
  return { ...service, model, teach, train };
}

describe('a teacher', () => {
  test('is a base model, a checkpoint, or a model, whose newest checkpoint the job keeps', async () => {
    const { call, follow, engine, createModel, teach, train } = await prepared();
    const large = await createModel({ name: 'large', base_model: 'scripted-large' });
    await train(large);
    const held = door();
    engine.hold = held.wait;
    const jobs = [
      await teach('scripted-large'),
      await teach('local/desk/large:step0'),
      await teach('local/desk/large'),
      await teach('local/desk/agent:step0'),
    ];
    await held.reached;
    held.open();
    await train(large);
    const names: string[] = [];
    for (const { body } of jobs) {
      await follow(body.id);
      names.push((await call('GET', `${rl}/${body.id}`)).body.resolved_config.kl_penalty_reference_model);
    }
    expect(names).toEqual([
      ...['scripted-large', 'local/desk/large:step0', 'local/desk/large:step1'],
      'local/desk/agent:step0',
    ]);
    const taught = engine.trained.filter(({ reference }) => reference);
    expect(taught.map(({ reference: of }) => [of?.baseModel, of?.folder?.split('/').slice(-3)])).toEqual([
      ['scripted-large', undefined],
      ['scripted-large', undefined],
      ['scripted-large', [large.id, 'checkpoints', 'step-1']],
      ['scripted-tiny', undefined],
    ]);
    expect(taught[0]?.loss).toMatchObject({ klPenalty: { coefficient: 1, isCentred: false } });
  });

  test('of another entity, or that does not exist, is not found', async () => {
    const { service, dataFolder, teach, createModel } = await prepared();
    await createModel({ entity: 'them', name: 'secret' });
    const keys = await KeyStore.open(dataFolder);
    const { key } = keys.create('us', { entity: 'local' });
    keys.close();
    const { call } = callsTo(service.url, key);
    for (const name of ['them/desk/secret', 'local/desk/none', 'local/desk/agent:step7', 'nothing']) {
      const { status, body } = await teach(name, {}, call);
      expect([status, body.detail]).toEqual([404, expect.stringContaining(`"${name}" does not exist`)]);
    }
    expect((await teach('local/desk/agent', {}, call)).status).toBe(200);
  });

  test.each([
    [
      'scripted-other',
      /scripted-other and scripted-tiny differ: token 98 is "ß" in .*other and "b" in .*tiny/,
    ],
    ['scripted-longer', /token 268 is "new" in scripted-longer and missing in scripted-tiny/],
    ['scripted-away', /scripted-away is far from scripted-tiny/],
  ])('that cannot score the tokens is refused: %s', async (name, message) => {
    const { teach } = await prepared();
    // The second time, the comparison is known.
    for (let count = 0; count < 2; count++) {
      const { status, body } = await teach(name);
      expect(status).toBe(422);
      expect(body.detail[0]).toMatchObject({
        loc: ['body', 'experimental_config', 'kl_penalty_reference_model'],
        msg: expect.stringMatching(message),
        input: name,
      });
    }
  });

  test.each([
    [{ kl_penalty_coef: null }, /also send kl_penalty_coef/],
    [{ kl_penalty_reference_step: 0 }, /than kl_penalty_reference_step/],
    [{ kl_penalty_step_lag: 1 }, /than kl_penalty_step_lag/],
    [{ kl_penalty_reference_model: '' }, />=1/],
  ])('contradicted by %j is refused', async (fields, message) => {
    const { teach } = await prepared();
    const { status, body } = await teach('scripted-large', fields);
    expect([status, body.detail[0].loc.at(-1)]).toEqual([422, 'kl_penalty_reference_model']);
    expect(body.detail[0].msg).toMatch(message);
  });

  test('that is deleted while the job waits fails it, also when another model has its name then', async () => {
    const { call, follow, engine, createModel, teach, train } = await prepared();
    const large = await createModel({ name: 'large', base_model: 'scripted-large' });
    await train(large);
    const held = door();
    engine.hold = held.wait;
    const before = await teach('scripted-large');
    await held.reached;
    const waiting = await teach('local/desk/large:step0');
    await call('DELETE', `/v1/preview/models/${large.id}`);
    await createModel({ name: 'large', base_model: 'scripted-large' });
    held.open();
    await follow(before.body.id);
    expect((await follow(waiting.body.id)).at(-1)).toMatchObject({
      type: 'training_failed',
      data: {
        error_message: expect.stringMatching(/^kl_penalty_reference_model: .*large:step0 was deleted/),
      },
    });
  });

  test('is the same after a restart, whatever it has learned meanwhile', async () => {
    const { service, dataFolder, engine, createModel, teach, train } = await prepared();
    const large = await createModel({ name: 'large', base_model: 'scripted-large' });
    await train(large);
    const held = door();
    engine.hold = held.wait;
    const { body } = await teach('local/desk/large');
    await held.reached;
    await service.close();
    const again = await start({ engine: new SeveralBases(), dataFolder });
    expect((await again.follow(body.id)).at(-1).type).toBe('training_ended');
    const { reference } = again.engine.trained[0] ?? {};
    expect([reference?.baseModel, reference?.folder?.split('/').at(-1)]).toEqual([
      'scripted-large',
      'step-1',
    ]);
  });

  test('teaches groups whose rewards are equal, and single trajectories', async () => {
    const { call, follow, engine, model, teach } = await prepared();
    const equal = [group(trajectory(1, sampled), trajectory(1, sampled)), group(trajectory(3, sampled))];
    const send = async (config: object) => {
      const { body } = await call('POST', rl, {
        ...{ model_id: model.id, trajectory_groups: equal, experimental_config: config },
      });
      return (await follow(body.id)).at(-1);
    };
    const penalised = await send({ kl_penalty_coef: 1 });
    expect(penalised.data.untrained).toMatchObject({ reason: 'no_signal' });
    const { body } = await teach('scripted-large', {});
    await follow(body.id);
    await send({ kl_penalty_coef: 1, kl_penalty_reference_model: 'scripted-large' });
    const [, taught] = engine.trained;
    expect(taught?.datums.map(({ spans }) => spans[0]?.advantage)).toEqual([0, 0, 0]);
    const step = (await follow((await teach('scripted-large', {})).body.id)).find(
      ({ type }) => type === 'gradient_step',
    );
    expect(step.data).toMatchObject({ num_groups_trainable: 1, num_groups_without_signal: 0 });
  });

  test('without a token that had an alternative leaves the job untrained, and says so', async () => {
    const { call, follow, model } = await prepared();
    const content = sampled.map(() => ({ token: '', logprob: 0, bytes: [], top_logprobs: [] }));
    const certain = {
      reward: 1,
      messages_and_choices: [{ role: 'user', content: 'hi' }, choice(sampled, { logprobs: { content } })],
    };
    const { body } = await call('POST', rl, {
      ...{ model_id: model.id, trajectory_groups: [group(certain, certain)] },
      experimental_config: { kl_penalty_coef: 1, kl_penalty_reference_model: 'scripted-large' },
    });
    expect((await follow(body.id)).at(-1).data.untrained).toMatchObject({
      reason: 'no_decisions',
      message: expect.stringContaining('no token of a reply had an alternative'),
    });
  });
});
