import { describe, expect, test } from 'vitest';
import { trajectoryTokensPageSchema } from '../../../src/contract/index.ts';
import { TokenResults } from '../../../src/engines/token-results.ts';
import { type JobTokens, RecentTokens, tokenPage } from '../../../src/service/jobs/trained-tokens.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { choice, group, start, trajectory } from '../harness.ts';
import { groups, rl, sampled, unknown } from './support.ts';

describe('the tokens of a job', () => {
  test('are those of the choices that trained, by their place in the request', async () => {
    const { call, createModel, follow, engine } = await start();
    engine.tokensOf = ({ datums }) => {
      const results = new TokenResults(datums);
      for (const span of datums.flatMap(({ spans }) => spans))
        for (let index = 1; index < span.length; index++)
          results.set({ span, position: span.start + index - 1 }, -index / 10, index === 2);
      return results.all();
    };
    const model = await createModel();
    const second = tokensOf('no', special.end);
    const twoChoices = {
      ...trajectory(1, sampled),
      additional_histories: [
        { messages_and_choices: [{ role: 'user', content: 'again' }, choice(second)], tools: null },
      ],
    };
    const withoutSignal = group(trajectory(3, sampled), trajectory(3, sampled));
    const { body: job } = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [withoutSignal, group(trajectory(0, sampled), twoChoices)],
    });
    await follow(job.id);
    const { body } = await call('GET', `${rl}/${job.id}/tokens?limit=1`);
    expect(trajectoryTokensPageSchema.parse(body)).toMatchObject({ has_more: true, last_id: '0' });
    const found = { logprobs: [null, -0.1, -0.2, -0.3].slice(0, sampled.length), clipped: [2] };
    expect(body.data).toEqual([{ id: '0', group: 1, trajectory: 0, choices: [{ choice: 0, ...found }] }]);
    const { body: next } = await call('GET', `${rl}/${job.id}/tokens?after=0`);
    expect(next).toMatchObject({ has_more: false, data: [{ id: '1', group: 1, trajectory: 1 }] });
    expect(next.data[0].choices).toEqual([
      { choice: 0, ...found },
      { choice: 1, logprobs: [null, -0.1, -0.2].slice(0, second.length), clipped: [2] },
    ]);
    expect((await call('GET', `${rl}/${job.id}/tokens?after=7`)).status).toBe(422);
  });

  test('are not known for other jobs: 404 says why', async () => {
    const { call, createModel, follow } = await start();
    const model = await createModel();
    const { body: job } = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    await follow(job.id);
    // The engine has told nothing.
    const { status, body } = await call('GET', `${rl}/${job.id}/tokens`);
    expect([status, body.detail]).toEqual([
      404,
      expect.stringContaining('newest reinforcement-learning jobs'),
    ]);
    expect((await call('GET', `${rl}/${unknown}/tokens`)).status).toBe(404);
  });

  test('are kept for the newest jobs, within a bound', () => {
    const ofSize = (count: number): JobTokens => ({
      datums: [{ group: 0, trajectory: 0, spans: [{ choice: 0, length: count }] }],
      tokens: { logprobs: new Float32Array(count), clipped: new Uint8Array(count) },
    });
    const recent = new RecentTokens(50);
    for (const id of ['a', 'b']) recent.keep(id, ofSize(5));
    expect(recent.of('a')).toBeDefined();
    recent.keep('c', ofSize(5));
    expect(['a', 'b', 'c'].map((id) => recent.of(id) !== undefined)).toEqual([false, true, true]);
    recent.keep('d', ofSize(50));
    expect(['b', 'c', 'd'].map((id) => recent.of(id) !== undefined)).toEqual([false, false, false]);
  });

  test('come in pages of any size', () => {
    const datums = [0, 0, 1, 2, 2].map((trajectory, at) => ({
      group: 0,
      trajectory,
      spans: [{ choice: at, length: 1 }],
    }));
    const tokens = { logprobs: Float32Array.of(-1, -2, -3, -4, -5), clipped: new Uint8Array(5) };
    for (const limit of [1, 2, 3, 10]) {
      const seen: number[] = [];
      for (let after = ''; ; ) {
        const page = tokenPage({ datums, tokens }, { after, limit });
        for (const { choices } of page?.items ?? [])
          for (const { logprobs } of choices) seen.push(logprobs[0] ?? Number.NaN);
        if (!page?.hasMore) break;
        after = page.items.at(-1)?.id ?? '';
      }
      expect(seen).toEqual([-1, -2, -3, -4, -5]);
    }
    expect(tokenPage({ datums, tokens }, { after: '2', limit: 5 })).toEqual({ items: [], hasMore: false });
    expect(tokenPage({ datums, tokens }, { after: 'x', limit: 5 })).toBeUndefined();
  });
});

test('the jobs of a model are listed, oldest first or newest first', async () => {
  const { call, createModel, follow } = await start();
  const [model, other] = [await createModel(), await createModel({ name: 'other' })];
  const ids: string[] = [];
  for (const { id } of [model, model, other]) {
    const { body } = await call('POST', rl, { model_id: id, trajectory_groups: groups });
    await follow(body.id);
    ids.push(body.id);
  }
  const list = async (query: string) =>
    (await call('GET', `/v1/preview/models/${model.id}/training-jobs${query}`)).body;
  expect((await list('')).data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2));
  expect(await list('?order=desc&limit=1')).toMatchObject({
    data: [{ id: ids[1], status: 'succeeded', step: 2 }],
    has_more: true,
  });
  expect((await call('GET', `/v1/preview/models/${unknown}/training-jobs`)).status).toBe(404);
});
