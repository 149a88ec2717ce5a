import { group, type Json, trajectory } from '../../service/harness.ts';
import { baseModel, special, tokensOf } from '../../support/scripted-engine.ts';
import type { Caller } from './caller.ts';
import { endlessRate } from './chain-engine.ts';

export interface Told {
  /** Ids of what was created, by their names in the script. */
  ids: Record<string, string>;
  /** The events of each job, as received. */
  events: Record<string, Json[]>;
}

const jobs = '/v1/preview/training-jobs';
const sftJobs = '/v1/preview/sft-training-jobs';
const models = '/v1/preview/models';

const groupsOf = (...replies: string[]) =>
  replies.map((reply) =>
    group(trajectory(1, tokensOf(reply, special.end)), trajectory(0, tokensOf('no', special.end))),
  );

const example = (reply: string) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: reply },
    ],
  });

const lines = ['a', 'b', 'c'].map(example);

/** Too long for memory: the service receives such a body into a file. */
const longData = `${lines.join('\n')}\n${' '.repeat(1024 ** 2)}`;

/** Calls that store their results under names. */
export function callsOf(caller: Caller) {
  const told: Told = { ids: {}, events: {} };
  const make = async (name: string, path: string, body: unknown): Promise<string> => {
    const { id } = await caller.post(name, path, body);
    told.ids[name] = id;
    return id;
  };
  return {
    told,
    model: (name: string, base = baseModel.id) =>
      make(name, models, { project: 'p', name, base_model: base }),
    rl: (name: string, modelId: string, replies: string[], rate = 0.001) =>
      make(name, jobs, {
        model_id: modelId,
        trajectory_groups: groupsOf(...replies),
        experimental_config: { learning_rate: rate },
      }),
    /** A job with equal rewards, so without a signal. */
    rlWithoutSignal: (name: string, modelId: string) =>
      make(name, jobs, {
        model_id: modelId,
        trajectory_groups: [
          group(trajectory(1, tokensOf('a', special.end)), trajectory(1, tokensOf('b', special.end))),
        ],
      }),
    /** A gradient step for each line. */
    async sft(name: string, modelId: string, data: string) {
      const { url } = await caller.post(`data of ${name}`, '/v1/preview/uploads', data);
      const config = { batch_size: 1 };
      return make(name, sftJobs, { model_id: modelId, training_data_url: url, config });
    },
    fork: (name: string, modelId: string) => make(name, `${models}/${modelId}/fork`, { name }),
    log: (name: string, modelId: string, split: string) =>
      caller.post(name, `${models}/${modelId}/log`, { split, trajectory_groups: groupsOf(name, split) }),
    group: (name: string, modelId: string) => make(name, `${models}/${modelId}/groups`, groupsOf(name)[0]),
    rlOf: (name: string, modelId: string, groups: string[]) =>
      make(name, jobs, {
        model_id: modelId,
        groups,
        experimental_config: { learning_rate: 0.001 },
      }),
    logOf: (name: string, modelId: string, groups: string[]) =>
      caller.post(name, `${models}/${modelId}/log`, { split: 'train', groups }),
    async follow(name: string, until?: (event: Json) => boolean) {
      told.events[name] = await caller.follow(told.ids[name] ?? '', until);
    },
    cancel: (name: string) => caller.post(`cancel ${name}`, `${jobs}/${told.ids[name]}/cancel`),
  };
}

/**
 * Calls of everything that writes: it trains, logs, forks, cancels and deletes, and ends in the same state however
 * often the service is killed meanwhile.
 */
export async function callEverything(caller: Caller): Promise<Told> {
  const { told, model, rl, sft, fork, log, group, rlOf, logOf, follow, cancel } = callsOf(caller);
  const first = await model('first');
  await sft('sft', first, longData);
  // Waits for the job before it, and starts from its checkpoint.
  await rl('rl', first, ['yes', 'maybe']);
  await Promise.all([follow('sft'), log('log 1', first, 'train')]);
  await follow('rl');
  await log('log 2', first, 'train');

  const groups = [await group('group 1', first), await group('group 2', first)];
  await rlOf('rl of groups', first, groups);
  await follow('rl of groups');
  await logOf('log of groups', first, groups);

  await rl('rl of the fork', await fork('fork', first), ['fork']);
  await follow('rl of the fork');

  await rl('cancelled', first, ['never'], endlessRate);
  await follow('cancelled', ({ type }) => type === 'gradient_step');
  await cancel('cancelled');
  await follow('cancelled');

  const gone = await model('gone');
  await rl('rl of the gone', gone, ['gone']);
  await follow('rl of the gone');
  await log('log of the gone', gone, 'train');
  await group('group of the gone', gone);
  // Wait until it is running, so that the steps are the same in every run.
  const underWay = await rl('cancelled by the deletion', gone, ['never'], endlessRate);
  await caller.follow(underWay, ({ type }) => type === 'gradient_step');
  await remove(caller, `${models}/${gone}`);

  await removeSteps(caller, first, [1]);
  await rl('last', first, ['last']);
  await follow('last');
  return told;
}

/** A job without a signal, and one that trains after it. */
export async function askWithoutSignal(caller: Caller): Promise<Told> {
  const { told, model, rl, rlWithoutSignal, follow } = callsOf(caller);
  const first = await model('first');
  await rlWithoutSignal('silent', first);
  await follow('silent');
  await rl('rl', first, ['yes']);
  await follow('rl');
  return told;
}

/** A few gradient steps on a base model of the embedded engine. */
export const trainEmbedded =
  (baseModel: string) =>
  async (caller: Caller): Promise<Told> => {
    const { told, model, sft, follow } = callsOf(caller);
    const id = await model('embedded', baseModel);
    await sft('sft', id, lines.join('\n'));
    await follow('sft');
    return told;
  };

/** A deletion has no key. If a repeat finds nothing, an earlier try has deleted it. */
async function remove(caller: Caller, path: string): Promise<void> {
  const { status, tries } = await caller.send({ method: 'DELETE', path, key: undefined });
  if (status !== 200 && !(status === 404 && tries > 1)) throw new Error(`DELETE ${path}: ${status}`);
}

async function removeSteps(caller: Caller, modelId: string, steps: number[]): Promise<void> {
  const path = `${models}/${modelId}/checkpoints`;
  const { status, body, tries } = await caller.send({
    method: 'DELETE',
    path,
    body: { steps },
    key: undefined,
  });
  const deleted = body.deleted_count === steps.length;
  if (status !== 200 || !(deleted || (tries > 1 && body.not_found_steps.length === steps.length)))
    throw new Error(`DELETE ${path}: ${status} ${JSON.stringify(body)}`);
}
