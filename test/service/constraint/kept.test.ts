import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { KeyStore } from '../../../src/service/index.ts';
import { sqliteConstraints } from '../../../src/service/store/sqlite-data.ts';
import { SqliteDatabase } from '../../../src/service/store/sqlite-database.ts';
import { temporaryFolder } from '../../support/files.ts';
import { baseModel } from '../../support/scripted-engine.ts';
import { choice, group, type Json, start } from '../harness.ts';
import { rl } from '../jobs/support.ts';

/** Each test has its own, so that none finds that of another. */
const schemaOf = (name: string) => ({ type: 'object', properties: { [name]: { type: 'string' } } });
const formatOf = (name: string) => ({
  type: 'json_schema',
  json_schema: { name: 'n', schema: schemaOf(name) },
});
const messages = [{ role: 'user', content: 'hi' }];
const namedChat = (fields: object) => ({ messages, ...fields });

/** Two trajectories of a job whose choices name this constraint. */
const groupsUnder = (constraint: string | null) => {
  const sampling = { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint };
  const of = (reward: number) => ({
    messages_and_choices: [...messages, choice([65, 66], { sampling })],
    reward,
  });
  return [group(of(1), of(0))];
};

/** The hashes in the store, by entity. */
async function storedIn(folder: string): Promise<[entity: string, hash: string][]> {
  const database = new DatabaseSync(join(folder, 'martingale.sqlite'), { readOnly: true });
  try {
    return database
      .prepare('SELECT entity, hash FROM entity_constraints ORDER BY entity')
      .all()
      .map(({ entity, hash }) => [String(entity), String(hash)]);
  } finally {
    database.close();
  }
}

async function withKeys() {
  const running = await start();
  const keys = await KeyStore.open(running.dataFolder);
  onTestFinished(() => keys.close());
  const as = (entity: string | null) => {
    const headers = { authorization: `Bearer ${keys.create('', { entity }).key}` };
    return (path: string, body: object): Promise<Json> => running.call('POST', path, body, headers);
  };
  return { ...running, as };
}

describe('constraints of sampled replies', () => {
  test('are stored before a reply is sampled, and not for a refused request', async () => {
    const { chat, service, dataFolder } = await start();
    const response_format = formatOf('a');
    const refused = [
      { messages: [{ role: 'user', content: 'x'.repeat(9000) }] },
      { messages: [{ role: 'critic', content: 'x' }] },
      { messages: Array(200).fill(messages[0]) },
      { stop_token_ids: [1e6] },
    ];
    for (const fields of refused)
      expect((await chat({ response_format, ...fields })).status).toBeGreaterThanOrEqual(400);
    const { body } = await chat({ response_format });
    await chat({ response_format });
    await service.close();
    expect(await storedIn(dataFolder)).toEqual([['', body.choices[0].sampling.constraint]]);
  });

  test('are known to the entity that sampled under them, and to keys without an entity', async () => {
    const { as } = await withKeys();
    const [a, b, all] = [as('team-a'), as('team-b'), as(null)];
    const answer = await a('/v1/chat/completions', namedChat({ response_format: formatOf('secret') }));
    const { constraint } = answer.body.choices[0].sampling;
    const jobOf = async (ask: typeof a, hash: string | null, name: string) => {
      const model = await ask('/v1/preview/models', { project: 'p', name, base_model: baseModel.id });
      return ask(rl, { model_id: model.body.id, trajectory_groups: groupsUnder(hash) });
    };
    const nowhere = `sha256-${'0'.repeat(64)}`;
    const others = await jobOf(b, constraint, 'b');
    const unknown = await jobOf(b, nowhere, 'b2');
    expect(others.status).toBe(422);
    expect(JSON.stringify(others.body).replaceAll(constraint, nowhere)).toBe(JSON.stringify(unknown.body));
    expect((await jobOf(a, constraint, 'a')).status).toBe(200);
    expect((await jobOf(all, constraint, 'all')).status).toBe(200);
    // It knows the constraints that it samples under, even if others have used them too.
    await b('/v1/chat/completions', namedChat({ response_format: formatOf('secret') }));
    expect((await jobOf(b, constraint, 'b3')).status).toBe(200);
  });

  test('of a model belong to its entity, whichever key calls it', async () => {
    const { as } = await withKeys();
    const [a, all] = [as('team-a'), as(null)];
    const model = await a('/v1/preview/models', { project: 'p', name: 'a', base_model: baseModel.id });
    const fields = { model: 'team-a/p/a', response_format: formatOf('m') };
    const { body } = await all('/v1/chat/completions', namedChat(fields));
    const groups = groupsUnder(body.choices[0].sampling.constraint);
    const job = await a(rl, { model_id: model.body.id, trajectory_groups: groups });
    expect(job.status).toBe(200);
  });
});

describe('the limit of an entity’s constraints', () => {
  async function table(room: { characters: number; minCharacters: number }) {
    const database = new SqliteDatabase(join(await temporaryFolder(), 'test.sqlite'));
    onTestFinished(() => database.close());
    const table = sqliteConstraints(database, room);
    const keep = (hash: string, usedAt: number, { entity = 'a', length = 10 } = {}) =>
      table.keepConstraint({ hash, json: 'x'.repeat(length), usedAt }, entity);
    const kept = async (entity: string | null, ...hashes: string[]) => {
      const found = await Promise.all(hashes.map((hash) => table.constraint(hash, entity)));
      return hashes.filter((_, index) => found[index] !== undefined);
    };
    return { ...table, keep, kept };
  }

  test('removes the least recently used ones, and none of another entity', async () => {
    const { keep, kept } = await table({ characters: 30, minCharacters: 1 });
    await keep('old', 1, { entity: 'b' });
    await keep('one', 1);
    await keep('two', 2);
    await keep('three', 3);
    await keep('one', 4);
    await keep('four', 5);
    expect(await kept('a', 'one', 'two', 'three', 'four')).toEqual(['one', 'three', 'four']);
    await keep('long', 6, { length: 25 });
    expect(await kept('a', 'one', 'two', 'three', 'four', 'long')).toEqual(['long']);
    expect(await kept('b', 'old', 'long')).toEqual(['old']);
    expect(await kept(null, 'old', 'long')).toEqual(['old', 'long']);
  });

  test('keeps the one that is needed, even if the clock was set back', async () => {
    const { keep, kept } = await table({ characters: 20, minCharacters: 1 });
    await keep('one', 100);
    await keep('two', 100);
    await keep('three', 5);
    expect(await kept('a', 'three')).toEqual(['three']);
  });

  test('bounds the number of short ones', async () => {
    const { keep, kept } = await table({ characters: 100, minCharacters: 50 });
    for (const [index, hash] of ['one', 'two', 'three'].entries()) await keep(hash, index, { length: 1 });
    expect(await kept('a', 'one', 'two', 'three')).toEqual(['two', 'three']);
  });
});

test('the last use of a constraint is written once a day at most', async () => {
  const { chat, service, dataFolder } = await start();
  const usedAt = () => {
    const database = new DatabaseSync(join(dataFolder, 'martingale.sqlite'), { readOnly: true });
    const row = database.prepare('SELECT used_at FROM entity_constraints').get();
    database.close();
    return Number(row?.used_at);
  };
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const [day, first] = [86_400_000, 1_900_000_000_000];
  for (const at of [first, first + day - 1, first + day + 5, first + day + 6]) {
    vi.setSystemTime(at);
    expect((await chat({ response_format: formatOf('d') })).status).toBe(200);
  }
  await service.close();
  expect(usedAt()).toBe(first + day + 5);
});
