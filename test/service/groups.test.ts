import { existsSync, readdirSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { backUp } from '../../src/service/store/backup.ts';
import { checkData } from '../../src/service/store/check-data.ts';
import { groupKeptMs, removeUnused } from '../../src/service/store/cleaning.ts';
import { temporaryFolder } from '../support/files.ts';
import { door, ScriptedEngine, special, tokensOf } from '../support/scripted-engine.ts';
import { choice, group, type Json, start, trajectory } from './harness.ts';
import { rl, sampled } from './jobs/support.ts';
import { open } from './opened.ts';

const groupsOf = (id: string) => `/v1/preview/models/${id}/groups`;
const noGroup = expect.stringMatching(/^There is no group /);
const unknownGroup = `group-${'0'.repeat(64)}`;

/** Replies of several lengths with credit and unknown log-probabilities, several histories, and a choice with its own prompt. */
const several = [
  group(trajectory(1, sampled), trajectory(0, tokensOf('no', special.end)), trajectory(1 / 3, sampled)),
  {
    ...group(
      trajectory(0.1, sampled, {
        additional_histories: [
          {
            messages_and_choices: [
              { role: 'user', content: 'more' },
              choice(tokensOf('certainly', special.end), { credited_reward: 0.7, logprobs: null }),
            ],
          },
        ],
      }),
      trajectory(0.2, tokensOf('maybe', special.end), { metadata: { colour: 'red' } }),
    ),
    metadata: { group: 7 },
    exceptions: [{ type: 'late', message: 'Too late.' }],
  },
  group(trajectory(1, sampled), trajectory(1, sampled)),
];

const trainedIn = async (name: 'trajectory_groups' | 'groups') => {
  const { call, createModel, follow, engine, dataFolder } = await start();
  const model = await createModel();
  const ids: string[] = [];
  if (name === 'groups')
    for (const body of several) {
      const { status, body: stored } = await call('POST', groupsOf(model.id), body);
      expect(status).toBe(200);
      ids.push(stored.id);
    }
  const sent = { [name]: name === 'groups' ? ids : several };
  const logged = await call('POST', `/v1/preview/models/${model.id}/log`, { split: 'train', ...sent });
  const config = { normalize_advantages: true };
  const created = await call('POST', rl, { model_id: model.id, ...sent, experimental_config: config });
  expect([created.status, created.body.detail]).toEqual([200, undefined]);
  const events = await follow(created.body.id);
  const log = await readFile(join(dataFolder, 'models', model.id, 'logs', 'train.jsonl.gz'));
  return {
    logged: logged.body,
    log: (await promisify(gunzip)(log)).toString(),
    events: events.map(({ type, data: { checkpoint_id: _, ...data } }) => [type, data]),
    trained: engine.trained,
  };
};

test('a job and a log that name groups do the same, to the digit, as with the groups in their requests', async () => {
  const [whole, named] = [await trainedIn('trajectory_groups'), await trainedIn('groups')];
  expect(whole.trained).toHaveLength(1);
  expect(whole.logged).toEqual({ split: 'train', num_groups: 3, num_trajectories: 7 });
  expect(named).toEqual(whole);
});

describe('a stored group', () => {
  test('is the same for the same content under any key, and another content under its key is refused', async () => {
    const { call, createModel } = await start();
    const model = await createModel();
    const path = groupsOf(model.id);
    const { status, body } = await call('POST', path, several[0], { 'idempotency-key': 'a' });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^group-[0-9a-f]{64}$/),
      ...{ num_trajectories: 3, num_sampled_tokens: 11, num_trainable_tokens: 11 },
    });
    for (const key of ['a', 'b'])
      expect((await call('POST', path, several[0], { 'idempotency-key': key })).body).toEqual(body);
    expect((await call('POST', path, several[0])).body).toEqual(body);
    const reused = await call('POST', path, several[1], { 'idempotency-key': 'a' });
    expect([reused.status, reused.body.detail]).toEqual([409, expect.stringContaining('another request')]);
  });

  test('has the id of its model alone: others answer 404, as they do for unknown ids and other entities', async () => {
    const { service, call, createModel } = await open();
    const [one, other] = [await createModel(), await createModel('other')];
    const { id } = (await call('POST', groupsOf(one.id), several[0])).body;
    const job = (modelId: string, ...groups: string[]) => call('POST', rl, { model_id: modelId, groups });
    for (const answer of [
      await job(other.id, id),
      await job(one.id, id, unknownGroup),
      await job(one.id, '../../etc'),
      await call('POST', `/v1/preview/models/${other.id}/log`, { split: 'train', groups: [id] }),
    ])
      expect([answer.status, answer.body.detail]).toEqual([404, noGroup]);
    const { key } = service.keys.create('them', { entity: 'them' });
    const headers = { authorization: `Bearer ${key}` };
    const noModel = [404, expect.stringMatching(/^There is no model /)];
    const foreign = await call('POST', groupsOf(one.id), several[1], headers);
    expect([foreign.status, foreign.body.detail]).toEqual(noModel);
    const theirs = await call('POST', rl, { model_id: one.id, groups: [id] }, headers);
    expect([theirs.status, theirs.body.detail]).toEqual(noModel);
    expect((await job(one.id, id)).status).toBe(200);
  });

  test('is refused with the path of what is wrong, and leaves nothing', async () => {
    const { call, createModel, dataFolder } = await start();
    const model = await createModel();
    const refused = async (body: unknown) => {
      const answer = await call('POST', groupsOf(model.id), body);
      return [answer.status, answer.body.detail?.[0]?.loc ?? answer.body.detail];
    };
    const wrong = (fields: object) => group(trajectory(1, sampled), { ...trajectory(0, sampled), ...fields });
    const at = ['body', 'trajectories', '1'];
    expect(await refused(wrong({ reward: 'high' }))).toEqual([422, [...at, 'reward']]);
    expect(await refused(wrong({ colour: 'red' }))).toEqual([422, [...at, 'colour']]);
    const choices = [...at, 'messages_and_choices', '1'];
    const foreign = { messages_and_choices: [{ role: 'user', content: 'hi' }, choice([99_999])] };
    expect(await refused(wrong(foreign))).toEqual([422, [...choices, 'token_ids', '0']]);
    const elsewhere = { ...choice(sampled), sampling: { temperature: 1, prompt: 'another' } };
    const moved = { messages_and_choices: [{ role: 'user', content: 'hi' }, elsewhere] };
    expect((await refused(wrong(moved)))[0]).toBe(422);
    expect(await refused([])).toEqual([422, ['body']]);
    expect(await refused({ trajectories: [], colour: 'red' })).toEqual([422, ['body', 'colour']]);
    expect((await refused('{"trajectories": [NaN]}'))[0]).toBe(422);
    expect((await refused(`${JSON.stringify(several[0])}]`))[0]).toBe(422);
    expect(existsSync(join(dataFolder, 'models', model.id, 'groups'))).toBe(false);
    expect(readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
  });

  test('is not sent together with whole groups, and a job has one form of them', async () => {
    const { call, createModel } = await start();
    const model = await createModel();
    const { id } = (await call('POST', groupsOf(model.id), several[0])).body;
    const job = (fields: object) => call('POST', rl, { model_id: model.id, ...fields });
    const locOf = ({ status, body }: Json) => [status, body.detail[0].loc, body.detail[0].type];
    expect(locOf(await job({ groups: [id], trajectory_groups: several }))).toEqual([
      422,
      ['body', 'groups'],
      'value_error',
    ]);
    expect(locOf(await job({}))).toEqual([422, ['body', 'trajectory_groups'], 'missing']);
    expect(locOf(await job({ groups: [] }))[0]).toBe(422);
  });

  test('survives a restart before the job that names it', async () => {
    const dataFolder = await temporaryFolder();
    const before = await start({ dataFolder });
    const model = await before.createModel();
    const { body } = await before.call('POST', groupsOf(model.id), several[0]);
    await before.service.close();
    const engine = new ScriptedEngine();
    const after = await start({ dataFolder, engine });
    expect((await after.call('POST', groupsOf(model.id), several[0])).body).toEqual(body);
    const job = await after.call('POST', rl, { model_id: model.id, groups: [body.id] });
    expect((await after.follow(job.body.id)).at(-1)?.type).toBe('training_ended');
    expect(engine.trained).toHaveLength(1);
  });

  test('is in a backup, and its loss is found', async () => {
    const { service, call, createModel, dataFolder } = await open();
    service.queue.wake = () => {};
    const model = await createModel();
    const { id } = (await call('POST', groupsOf(model.id), several[0])).body;
    const created = await call('POST', rl, { model_id: model.id, groups: [id] });
    const copy = join(await temporaryFolder(), 'copy');
    await backUp(dataFolder, copy);
    expect((await checkData(copy))?.problems).toEqual([]);
    const restored = await start({ dataFolder: copy });
    const events = await restored.follow(created.body.id);
    expect(events.at(-1)?.type).toBe('training_ended');
    await restored.service.close();
    rmSync(join(copy, 'models', model.id, 'groups', id));
    expect((await checkData(copy))?.problems).toEqual([
      `models/${model.id}/groups/${id} is not there, or has another size`,
    ]);
    const without = await start({ dataFolder: copy });
    const again = await without.call('POST', rl, { model_id: model.id, groups: [id] });
    expect((await without.follow(again.body.id)).at(-1)?.data.error_message).toContain('Send the job again');
  });

  test('is removed a day after it was sent or an hour after it was named, unless an unfinished job needs it', async () => {
    const { service, call, createModel, dataFolder } = await open();
    service.queue.wake = () => {};
    const model = await createModel();
    const ids: string[] = [];
    for (const body of several) ids.push((await call('POST', groupsOf(model.id), body)).body.id);
    const [needed = '', logged = '', unused = ''] = ids;
    expect((await call('POST', rl, { model_id: model.id, groups: [needed] })).status).toBe(200);
    const log = (id: string) =>
      call('POST', `/v1/preview/models/${model.id}/log`, { split: 'val', groups: [id] });
    expect((await log(logged)).status).toBe(200);
    const files = () => readdirSync(join(dataFolder, 'models', model.id, 'groups')).sort();
    const later = (ms: number) => removeUnused({ ...service, now: Date.now() + ms });
    await later(groupKeptMs.named - 60_000);
    expect(files()).toEqual(ids.toSorted());
    await later(groupKeptMs.named + 60_000);
    expect(files()).toEqual([needed, unused].sort());
    await later(groupKeptMs.unnamed - 60_000);
    expect(files()).toEqual([needed, unused].sort());
    await later(groupKeptMs.unnamed + 60_000);
    expect(files()).toEqual([needed]);
    expect((await log(unused)).body.detail).toEqual(noGroup);
    expect((await call('POST', groupsOf(model.id), several[2])).body.id).toBe(unused);
    expect((await log(unused)).status).toBe(200);
  });

  test('counts in the limit until a job or log names it', async () => {
    const { call, createModel } = await start({ limits: { groups: 3 } });
    const model = await createModel();
    const send = (body: object) => call('POST', groupsOf(model.id), body);
    const [first, second] = [await send(several[0] ?? {}), await send(several[1] ?? {})];
    expect([first.status, second.status]).toEqual([200, 200]);
    expect((await send(several[2] ?? {})).status).toBe(200);
    const extra = group(trajectory(5, sampled));
    const refused = await send(extra);
    expect([refused.status, refused.body.detail]).toEqual([429, expect.stringContaining('limits.groups')]);
    expect((await send(several[0] ?? {})).status).toBe(200);
    const named = { split: 'train', groups: [first.body.id, second.body.id] };
    expect((await call('POST', `/v1/preview/models/${model.id}/log`, named)).status).toBe(200);
    expect((await send(extra)).status).toBe(200);
  });

  test('that arrives while its model is deleted is a 404, and leaves no file', async () => {
    const { service, call, createModel, dataFolder, log } = await open();
    const model = await createModel();
    const held = door();
    const keep = service.files.keepGroup.bind(service.files);
    service.files.keepGroup = async (...given) => {
      await held.wait();
      await keep(...given);
    };
    const sending = call('POST', groupsOf(model.id), several[0]);
    await held.reached;
    const behind = call('POST', groupsOf(model.id), several[1]);
    const path = `/v1/preview/models/${model.id}`;
    const deletion = call('DELETE', path);
    await expect.poll(async () => (await call('GET', path)).status).toBe(404);
    held.open();
    expect((await deletion).status).toBe(200);
    expect([(await sending).status, (await behind).status]).toEqual([404, 404]);
    expect(existsSync(join(dataFolder, 'models', model.id))).toBe(false);
    expect(readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
    expect(log.filter(({ level }) => level !== 'info')).toEqual([]);
  });
});
