import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type Client,
  createClient,
  ModelHandle,
  openModel,
  opponents,
  type StepReport,
  sft,
  train,
} from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { rescore } from 'martingale/records';
import { startService } from 'martingale/service';
import { replayStep } from 'martingale/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { market, marketScenarios } from '../../recipes/market/environment.ts';
import { ticTacToe } from '../../recipes/tictactoe/environment.ts';
import { perfectPlayer, randomPlayer } from '../../recipes/tictactoe/players.ts';
import { openings, wholeGames } from '../../recipes/tictactoe/scenarios.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { Opponents, parseGroupRecord } from '../../src/rollout/index.ts';
import type { LearnerState } from '../../src/training/run-state.ts';
import { seatsOfStep } from '../../src/training/seats.ts';
import { RunViews } from '../../src/view/index.ts';
import { output } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';
import { reports } from './diagnosis/reports.ts';

const folder = sharedFolder();
let engine: Engine;

beforeAll(async () => {
  engine = await createEmbeddedEngine({ threads: 1 });
});

afterAll(() => engine.close());

async function served<Result>(data: string, use: (client: Client) => Promise<Result>): Promise<Result> {
  const service = await startService({ engine, dataFolder: join(folder, `${data}-service`) });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  try {
    return await use(client);
  } finally {
    await client.close();
    await service.close();
  }
}

const pool = opponents({ everySteps: 1, keep: 2, players: [{ model: randomPlayer }] });

interface RunOptions {
  name: string;
  steps?: number;
  seats?: Parameters<typeof train>[0]['seats'];
  onStep?: (report: StepReport) => void;
  signal?: AbortSignal;
  resume?: boolean;
}

/** Six steps of two groups, with one checkpoint kept beside those that the pool may draw. */
const learn = async (client: Client, { name, onStep, ...options }: RunOptions) =>
  train({
    environment: ticTacToe,
    scenarios: openings({ seed: 3, count: 40 }),
    model: await openModel({ client, project: 'games', name, baseModel: 'martingale-tiny' }),
    steps: 6,
    groupsPerStep: 2,
    rolloutsPerGroup: 4,
    config: { learning_rate: 1e-3 },
    keepCheckpoints: 1,
    seed: 3,
    concurrency: 1,
    runDirectory: join(folder, name),
    onEvent: (event) => event.type === 'step' && onStep?.(event),
    ...options,
  });

const recordsOf = async (name: string, step: number) =>
  (await readFile(join(folder, name, `trajectories/step-000${step}.jsonl`), 'utf8'))
    .trim()
    .split('\n')
    .map(parseGroupRecord);

/** Who met whom, and how it ended. */
const gamesOf = async (name: string, step: number) =>
  (await recordsOf(name, step)).map(({ group, seat, rollouts }) => ({
    group,
    seat: seat && { ...seat, model: seat.model.replace(/games\/[^:]*/, 'games') },
    outcomes: rollouts.map((rollout) => rollout.status === 'completed' && [rollout.outcome, rollout.reward]),
  }));

it('one policy in both seats trains on both, each seat in groups of its own', async () => {
  await served('self', async (client) => {
    const { reports, validation } = await train({
      environment: ticTacToe,
      scenarios: openings({ seed: 3, count: 40 }),
      model: await openModel({ client, project: 'games', name: 'self', baseModel: 'martingale-tiny' }),
      steps: 1,
      groupsPerStep: 4,
      rolloutsPerGroup: 4,
      validation: { scenarios: wholeGames(3), seats: { o: perfectPlayer } },
      runDirectory: join(folder, 'self'),
    });
    const [report] = reports;
    expect(report).toMatchObject({ dispatched: 16, completed: 16, groups: 8, opponents: [] });
    expect(report?.metrics).toMatchObject({
      'x/reward': expect.any(Number),
      'o/reward': expect.any(Number),
      'o/success': expect.any(Number),
    });
    expect((report?.metrics['x/reward'] ?? 0) + (report?.metrics['o/reward'] ?? 0)).toBeCloseTo(1);
    const step = await new RunViews([folder]).step('self', '0');
    expect(step).toMatchObject({
      counts: { dispatched: 16, completed: 16, failed: 0, cancelled: 0 },
      seats: ['x', 'o'],
    });
    expect(step.groups).toHaveLength(8);
    const shown = await output(['show', 'self', '--in', folder, '--step', '0']);
    expect(shown).toMatch(/^step 0: 8 groups of one seat each, 16 rollouts with the seats x, o, \d/);
    const records = await recordsOf('self', 0);
    expect(records.map(({ seat }) => seat?.name)).toEqual(Array(4).fill(['x', 'o']).flat());
    expect(validation.after?.counts.completed).toBe(3);
    const again = { runDirectory: join(folder, 'self'), environment: ticTacToe };
    const rescored = await rescore({ ...again, step: 0 });
    expect(rescored.refused).toEqual([]);
    expect(rescored.table.map(({ after }) => after)).toEqual(rescored.table.map(({ before }) => before));
    expect((await replayStep({ ...again, step: 0 })).refused[0]?.reason).toMatch(/has seats/);
    const validated = validation.after?.groups.flatMap(({ rollouts }) => rollouts) ?? [];
    expect(validated.map(({ seats }) => seats?.map(({ model }) => model.replace(/.*:/, '')))).toEqual(
      Array(3).fill(['step1', 'perfect']),
    );
  });
});

it('a pool draws checkpoints of the run, which stay on the service, and a resumed run draws the same', async () => {
  await served('pool', async (client) => {
    const whole = await learn(client, { name: 'whole', seats: { o: pool } });
    const drawn = whole.reports.map(({ opponents: met, completed }) => {
      expect(met.reduce((sum, { rollouts }) => sum + rollouts, 0)).toBe(completed);
      return met.map(({ seat, model }) => `${seat} ${model.replace(/.*:/, '')}`);
    });
    const earlier = drawn.flatMap((names, step) =>
      names.flatMap((name) => {
        const [, checkpoint] = /step(\d+)/.exec(name) ?? [];
        return checkpoint === undefined || Number(checkpoint) === step ? [] : [Number(checkpoint) - step];
      }),
    );
    expect(earlier.length).toBeGreaterThan(0);
    expect(earlier.every((age) => age >= -2 && age < 0)).toBe(true);
    expect(drawn.flat()).toContain('o random');
    const { data } = await client.models.checkpoints.list(whole.model.id ?? '');
    expect(data.map(({ step }) => step).sort()).toEqual(expect.arrayContaining([4, 5, 6]));
    expect(data.map(({ step }) => step)).not.toContain(2);

    const views = new RunViews([join(folder, 'whole')]);
    const id = (await views.list()).runs[0]?.id ?? '';
    const shown = await views.step(id, '3');
    expect(shown.groups.slice(0, 2).map(({ title }) => title.slice(0, 3))).toEqual(['x: ', 'o: ']);
    expect(shown.report?.opponents).toEqual(whole.reports[3]?.opponents);
    expect((await views.group(id, '3', 1)).seat).toEqual({ name: 'o', model: expect.any(String) });

    const stop = new AbortController();
    await learn(client, {
      name: 'stopped',
      seats: { o: pool },
      signal: stop.signal,
      onStep: ({ step }) => step === 2 && stop.abort(),
    });
    const resumed = await learn(client, { name: 'stopped', seats: { o: pool }, resume: true });
    expect(resumed.reports.map(({ reward }) => reward)).toEqual(whole.reports.map(({ reward }) => reward));
    for (const step of [3, 5]) expect(await gamesOf('stopped', step)).toEqual(await gamesOf('whole', step));
    await expect(learn(client, { name: 'stopped', seats: { o: opponents() }, resume: true })).rejects.toThrow(
      /`seats` was .* and is/,
    );
  });
});

it('a pool moves on from an opponent that is beaten, and then plays the newest checkpoint', async () => {
  await served('beaten', async (client) => {
    const { reports } = await learn(client, {
      name: 'beaten',
      steps: 3,
      seats: { o: opponents({ newest: 0, older: 0, players: [{ model: randomPlayer }], beatenAt: 0.1 }) },
    });
    const names = reports.map(({ opponents: met }) => met.map(({ model }) => model.replace(/.*:/, '')));
    expect(names[0]).toEqual(['random']);
    expect(names.slice(1)).toEqual([['step1'], ['step2']]);
  });
});

it('two models train at once, each on its own seat, and a stopped run goes on with both', async () => {
  await served('two', async (client) => {
    const open = (name: string) =>
      openModel({ client, project: 'market', name, baseModel: 'martingale-tiny' });
    const trade = async (
      name: string,
      options: { resume?: boolean; signal?: AbortSignal; stop?: () => void },
    ) => {
      const [seller, buyer] = await Promise.all([open(`${name}-seller`), open(`${name}-buyer`)]);
      const { stop, ...rest } = options;
      return train({
        environment: market,
        scenarios: marketScenarios({ seed: 1, count: 30 }),
        model: seller,
        seats: { buyer: { model: buyer, trains: true } },
        steps: 3,
        groupsPerStep: 4,
        rolloutsPerGroup: 4,
        validation: { scenarios: marketScenarios({ seed: 2, count: 2 }) },
        config: { learning_rate: 1e-3 },
        keepCheckpoints: 1,
        seed: 4,
        runDirectory: join(folder, name),
        onEvent: (event) => event.type === 'step' && event.step === 1 && stop?.(),
        ...rest,
      });
    };
    const whole = await trade('trade', {});
    expect(whole.finalStep).toBe(3);
    expect(whole.learners.buyer?.name).toMatch(/market\/trade-buyer:step3$/);
    const records = await recordsOf('trade', 1);
    expect(
      records.map(({ seat }) => [seat?.name, seat?.model.replace(/.*-/, ''), seat?.trains]).slice(0, 2),
    ).toEqual([
      ['seller', 'seller:step1', true],
      ['buyer', 'buyer:step1', true],
    ]);
    expect(records.every(({ dropped_because: dropped }) => dropped === undefined)).toBe(true);
    expect(whole.reports[1]).toMatchObject({
      groups: 4,
      opponents: [{ seat: 'buyer', model: expect.stringMatching(/buyer:step1$/), rollouts: 16 }],
    });
    const validated = whole.validation.after?.groups[0]?.rollouts[0]?.seats ?? [];
    expect(validated.map(({ model }) => model.replace(/.*-/, ''))).toEqual(['seller:step3', 'buyer:step3']);
    const jobs = await Promise.all(
      [whole.model, whole.learners.buyer].map(async (model) => {
        const { data } = await client.trainingJobs.list(model?.id ?? '');
        return data.length;
      }),
    );
    expect(jobs).toEqual([3, 3]);

    const stopping = new AbortController();
    await trade('halves', { signal: stopping.signal, stop: () => stopping.abort() });
    const resumed = await trade('halves', { resume: true });
    expect(resumed.learners.buyer?.name).toMatch(/halves-buyer:step3$/);
    expect(resumed.reports.map(({ reward, metrics }) => [reward, metrics['buyer/reward']])).toEqual(
      whole.reports.map(({ reward, metrics }) => [reward, metrics['buyer/reward']]),
    );
    // The buyer is a learner like the model of the run: nothing else may have trained it.
    const examples = [{ messages: [{ role: 'assistant', content: 'sold' }] }];
    await sft({ model: await open('halves-buyer'), examples });
    await expect(trade('halves', { resume: true })).rejects.toThrow(
      /was at local\/market\/halves-buyer:step3, but its newest checkpoint is .*:step4/,
    );
    const stateFile = join(folder, 'halves', 'state.json');
    const state = JSON.parse(await readFile(stateFile, 'utf8'));
    expect(state.learners.map(({ name }: { name: string }) => name.replace(/.*-/, ''))).toEqual([
      'seller',
      'buyer',
    ]);
    await writeFile(stateFile, JSON.stringify({ ...state, version: 1 }));
    await expect(trade('halves', { resume: true })).rejects.toThrow(
      /An earlier version of martingale began the run/,
    );
    const seller = await open('trade-seller');
    await expect(
      train({
        environment: market,
        scenarios: marketScenarios({ seed: 1, count: 3 }),
        model: seller,
        seats: { buyer: { model: seller, trains: true } },
        steps: 1,
        groupsPerStep: 1,
        rolloutsPerGroup: 2,
        runDirectory: join(folder, 'same'),
      }),
    ).rejects.toThrow(/The model of the run trains anyway/);
  });
});

it('a checkpoint that met itself is not beaten, and neither is the opponent of another seat', () => {
  const seats = { a: opponents({ beatenAt: 0.5, players: [{ model: randomPlayer }] }), b: opponents() };
  const met = (seat: string, model: string) => ({ seat, model, rollouts: 4, reward: 1 });
  const state = {
    finishedSteps: 2,
    learners: [{ name: 'x/y/z', policySteps: [0, 1, 2], checkpoints: [1, 2] }] as [LearnerState],
  };
  const poolAfter = (results: ReturnType<typeof met>[]) => {
    const all = reports(2, () => ({ policy: 'x/y/z:step0', opponents: results }));
    const pool = seatsOfStep(2, { seats, state, reports: all, maxStaleness: 0 })?.a;
    if (!(pool instanceof Opponents)) throw new TypeError('There is no pool.');
    const policy = new ModelHandle({
      client: createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: 'x' }),
      name: 'x/y/z:step2',
    });
    return new Set(Array.from({ length: 100 }, (_, seed) => pool.draw({ policy, seed }).name));
  };
  const everybody = new Set(['x/y/z:step2', 'x/y/z:step0', 'random']);
  expect(poolAfter([met('a', 'x/y/z:step0'), met('b', 'random')])).toEqual(everybody);
  expect(poolAfter([met('a', 'random')])).toEqual(new Set(['x/y/z:step2', 'x/y/z:step0']));
});
