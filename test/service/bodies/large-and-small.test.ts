import { randomUUID } from 'node:crypto';
import { copyFileSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/files.ts';
import { baseModel, ScriptedEngine, special, tokensOf } from '../../support/scripted-engine.ts';
import { choice, group, type Json, start, trajectory } from '../harness.ts';

const sampled = tokensOf('yes', special.end);
const jobs = '/v1/preview/training-jobs';
/** More than the maximum size of a body in memory. */
const padding = ' '.repeat(1024 ** 2 + 1);
/** More than is parsed at once. */
const inner = '\n'.repeat(300_000);

/** JSON with so much white space that a small body and its parts become large. */
const padded = {
  body: (value: object) => padding + JSON.stringify(value),
  list: (value: object) => JSON.stringify(value).replace('"trajectory_groups":[', (text) => text + padding),
  trajectories: (value: object) =>
    JSON.stringify(value).replaceAll(/"trajectories":\[?\{?/g, (text) => text + inner.repeat(4)),
  conversations: (value: object) =>
    JSON.stringify(value).replaceAll(/"messages_and_choices":\[?/g, (text) => text + inner.repeat(4)),
};
const paddings = Object.entries(padded);

const long = choice(Array.from({ length: 1200 }, () => 97));
const wideEngine = () =>
  Object.assign(new ScriptedEngine(), { baseModels: [{ ...baseModel, contextLength: 4096 }] });

/** The issues of an answer. */
const problemsOf = ({ status, body }: { status: number; body: Json }) => ({
  status,
  // For a small body, the issue of a missing field shows the rest of the object.
  detail: body.detail.map(({ input, ...issue }: Json) =>
    issue.type === 'missing' && issue.loc.length === 2 ? issue : { ...issue, input },
  ),
});

const wrong: [string, (id: string) => object, ...tags: 'long'[]][] = [
  ['no groups', (id) => ({ model_id: id })],
  ['groups that are not a list', (id) => ({ model_id: id, trajectory_groups: { a: 1 } })],
  ['an empty list', (id) => ({ model_id: id, trajectory_groups: [] })],
  ['an unknown model', () => ({ model_id: 'x', trajectory_groups: [group()] })],
  [
    'a field that there is not',
    (id) => ({ model_id: id, trajectory_groups: [group()], groups: 1, more: null }),
  ],
  [
    'a refused option',
    (id) => ({
      model_id: id,
      trajectory_groups: [group()],
      experimental_config: { kl_ref_adapter_path: 'x' },
    }),
  ],
  [
    'a group that is not an object',
    (id) => ({ model_id: id, trajectory_groups: [group(), 5, 'x', [], null] }),
  ],
  [
    'a group without trajectories',
    (id) => ({ model_id: id, trajectory_groups: [{ metadata: {} }, { trajectories: 'x' }] }),
  ],
  [
    'invalid rewards, in two groups',
    (id) => ({
      model_id: id,
      trajectory_groups: [
        group(trajectory(1, sampled), { ...trajectory(0, sampled), reward: 'x', metrics: { a: 'b' } }),
        { ...group(trajectory(1, sampled), { reward: 1 }), metadata: 5 },
      ],
    }),
  ],
  [
    'fields that do not train',
    (id) => ({
      model_id: id,
      trajectory_groups: [
        { ...group({ ...trajectory(1, sampled), steps: [1] }), rollouts: [1] },
        group({ ...trajectory(1, sampled), step: 'x' }),
      ],
    }),
  ],
  [
    'a choice without ids',
    (id) => ({ model_id: id, trajectory_groups: [group(trajectory(1, sampled), trajectory(0, []))] }),
  ],
  [
    'an entry in a long list of log-probabilities',
    (id) => {
      const content: Json[] = long.logprobs.content.map(({ token, logprob }) => ({ token, logprob }));
      content[1100] = { token: 'x', logprob: null };
      const broken = { ...long, logprobs: { content }, index: 'x' };
      return {
        model_id: id,
        trajectory_groups: [
          group({
            ...trajectory(1, sampled),
            messages_and_choices: [{ role: 'user', content: 5 }, broken],
            reward: null,
          }),
        ],
      };
    },
  ],
  [
    'a further history',
    (id) => ({
      model_id: id,
      trajectory_groups: [
        group({
          ...trajectory(1, sampled),
          additional_histories: [{ messages_and_choices: [{ role: 'user' }] }, { tools: 1 }],
          reward: 'x',
          tools: [{}],
        }),
      ],
    }),
  ],
  [
    'a hundred problems and more',
    (id) => ({ model_id: id, trajectory_groups: Array.from({ length: 101 }, () => group({ reward: 'x' })) }),
    'long',
  ],
];

describe('a body is read in the same way whatever its size', () => {
  for (const [what, bodyOf, ...tags] of wrong)
    test(`errors: ${what}`, { tags }, async () => {
      const { call, createModel } = await start({ engine: wideEngine() });
      const model = await createModel();
      const body = bodyOf(model.id);
      const expected = problemsOf(await call('POST', jobs, body));
      expect(expected.status).toBe(422);
      for (const [name, pad] of paddings)
        expect({ name, ...problemsOf(await call('POST', jobs, pad(body))) }).toEqual({ name, ...expected });
    });

  test('training data', { tags: ['long'] }, async () => {
    const engine = wideEngine();
    const { call, createModel, follow } = await start({ engine });
    const expected = {
      ...trajectory(0.25, sampled),
      additional_histories: [{ messages_and_choices: [{ role: 'user', content: 'zwei\u2028Zeilen' }, long] }],
    };
    const trajectory_groups = [
      group(trajectory(1, sampled), expected, {
        ...trajectory(0, sampled),
        messages_and_choices: [{ role: 'user', content: 'ü "\\\n' }, long],
      }),
      group(),
      { ...group(trajectory(1, sampled), trajectory(0, sampled)), logs: ['a'], metadata: { __proto__: 1 } },
    ];
    const body = {
      model_id: (await createModel()).id,
      experimental_config: { advantage_balance: 0.5 },
      trajectory_groups,
    };
    const batches: Json[] = [];
    for (const pad of [(value: object) => JSON.stringify(value), ...Object.values(padded)]) {
      const { body: job } = await call('POST', jobs, pad(body));
      const events = await follow(job.id);
      const { id: _, ...ended } = events.at(-1).data;
      expect(events.at(-1).type).toBe('training_ended');
      batches.push({
        datums: engine.trained.at(-1)?.datums,
        counts: events[1].data.num_groups_submitted,
        ended: Object.keys(ended),
      });
    }
    expect(batches[0].datums).toHaveLength(6);
    expect(batches[0].counts).toBe(3);
    for (const batch of batches) expect(batch).toEqual(batches[0]);
  });

  test('logs', async () => {
    const { call, createModel, dataFolder } = await start();
    const model = await createModel();
    const trajectory_groups = [{ ...group({ ...trajectory(1, sampled), of_ours: [1] }), more: 'x' }, group()];
    const body = { split: 'train', trajectory_groups };
    for (const pad of Object.values(padded))
      expect((await call('POST', `/v1/preview/models/${model.id}/log`, pad(body))).body).toEqual({
        ...{ split: 'train', num_groups: 2, num_trajectories: 1 },
      });
    const file = join(dataFolder, 'models', model.id, 'logs', 'train.jsonl.gz');
    const lines = gunzipSync(readFileSync(file)).toString('utf8').trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual(paddings.flatMap(() => trajectory_groups));
    const wrongBody = { split: 'train', trajectory_groups: [group({ reward: 1 })] };
    const expected = await call('POST', `/v1/preview/models/${model.id}/log`, wrongBody);
    expect(expected.status).toBe(422);
    expect(
      (
        await call(
          'POST',
          `/v1/preview/models/${model.id}/log`,
          padded.conversations({ ...wrongBody, x: padding }),
        )
      ).status,
    ).toBe(422);
    expect(readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
  });

  test('the last of duplicate members counts', async () => {
    const { call, createModel, engine, follow } = await start();
    const { id } = await createModel();
    const groups = JSON.stringify([group(trajectory(1, sampled), trajectory(0, sampled))]);
    const twice = (space: string) =>
      `{"trajectory_groups":[{"trajectories":5}],"model_id":"x","model_id":"${id}","trajectory_groups":[{"trajectories":7,"trajectories":${space}[],"trajectories":${groups.slice('[{"trajectories":'.length, -2)}}]}${space}`;
    for (const space of ['', inner.repeat(4)]) {
      const { body, status } = await call('POST', jobs, twice(space));
      expect(status).toBe(200);
      await follow(body.id);
    }
    expect(engine.trained[1]?.datums).toEqual(engine.trained[0]?.datums);
  });

  test('a long unknown field is refused by name', async () => {
    const { call, createModel } = await start();
    const { id } = await createModel();
    const sent = `{"model_id":"${id}","batches":["${'x'.repeat(200_000)}"],"trajectory_groups":[]}`;
    const answer = await call('POST', jobs, sent);
    const issue = { loc: ['body', 'batches'], type: 'extra_forbidden', input: ['…'] };
    expect(answer).toMatchObject({ status: 422, body: { detail: [issue] } });
  });

  test('invalid JSON or UTF-8 is refused at any position', {
    tags: ['long'],
  }, async () => {
    const { call, service, createModel } = await start();
    const { id } = await createModel();
    const text = JSON.stringify({
      model_id: id,
      trajectory_groups: [group(trajectory(1, sampled), trajectory(0, sampled))],
    });
    for (const damage of [
      (sent: string) => sent.slice(0, -1),
      (sent: string) => `${sent}x`,
      (sent: string) => sent.replace('"reward":1', '"reward":01'),
      (sent: string) => sent.replace('"reward":1', '"reward":1,'),
      (sent: string) => sent.replace('}]}]}', '}]]]}'),
      (sent: string) => sent.replace('"role":"user"', '"role":"us\ner"'),
    ])
      for (const space of ['', padding, inner.repeat(4)]) {
        const { status, body } = await call(
          'POST',
          jobs,
          damage(text.replace('"trajectories":[', (found) => found + space)),
        );
        expect({ status, type: body.detail[0].type, loc: body.detail[0].loc }).toEqual({
          status: 422,
          type: 'json_invalid',
          loc: ['body'],
        });
      }
    for (const space of ['', padding]) {
      const bytes = Buffer.from(text.replace('"hi"', `"h\u00ff"${space}`), 'latin1');
      const response = await fetch(service.url + jobs, {
        method: 'POST',
        body: bytes,
        headers: { authorization: 'Bearer test-key' },
      });
      expect(response.status).toBe(422);
      expect(JSON.stringify(await response.json())).toContain('UTF-8');
    }
  });
});

describe('a large body during its transfer', () => {
  test('is refused as soon as it exceeds the limit, and leaves no file', async () => {
    const { service, dataFolder } = await start({ bodyLimits: { preview: 3 * 1024 ** 2 } });
    const { hostname, port } = new URL(service.url);
    const status = await new Promise((resolve, reject) => {
      const posting = request(
        { hostname, port, path: jobs, method: 'POST', headers: { authorization: 'Bearer test-key' } },
        (response) => resolve(response.statusCode),
      );
      posting.on('error', reject);
      // It is endless: the answer arrives before its end.
      for (let sent = 0; sent < 4; sent++) posting.write(padding);
    });
    expect(status).toBe(413);
    await expect.poll(() => readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
  });

  test('that breaks off leaves no file', async () => {
    const { service, dataFolder, log } = await start();
    const { hostname, port } = new URL(service.url);
    const posting = request({
      hostname,
      port,
      path: jobs,
      method: 'POST',
      headers: { authorization: 'Bearer test-key', 'content-length': 10 * padding.length },
    });
    posting.on('error', () => {});
    posting.write(padding + padding);
    await expect.poll(() => readdirSync(join(dataFolder, 'incoming'))).toHaveLength(1);
    posting.destroy();
    await expect.poll(() => readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
    await expect.poll(() => log).toContainEqual(expect.objectContaining({ event: 'request', status: 400 }));
  });

  test('the rest of one after a crash is removed at the next start', async () => {
    const dataFolder = await temporaryFolder();
    const first = await start({ dataFolder });
    const { hostname, port } = new URL(first.service.url);
    const posting = request({
      hostname,
      port,
      path: jobs,
      method: 'POST',
      headers: { authorization: 'Bearer test-key', 'content-length': 10 * padding.length },
    });
    posting.on('error', () => {});
    posting.write(padding + padding);
    const incoming = join(dataFolder, 'incoming');
    await expect.poll(() => readdirSync(incoming)).toHaveLength(1);
    const [name = ''] = readdirSync(incoming);
    expect(statSync(join(incoming, name)).mode & 0o777).toBe(0o600);
    const left = randomUUID();
    copyFileSync(join(incoming, name), join(incoming, left));
    posting.destroy();
    await first.service.close();
    await expect.poll(() => readdirSync(incoming)).toEqual([left]);
    await start({ dataFolder });
    expect(readdirSync(incoming)).toEqual([]);
  });
});
