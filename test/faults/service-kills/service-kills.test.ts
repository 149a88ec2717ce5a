import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { byTwo } from '../../support/by-two.ts';
import { testScale, testSeed } from '../../support/size.ts';
import type { FaultPoint } from '../driver/fault.ts';
import { booksAfter } from './counts-after.ts';
import { makeMess } from './mess.ts';
import { chosenOf, namesOf } from './points.ts';
import { askWithoutSignal, trainEmbedded } from './script.ts';
import { openWorld, type World } from './world.ts';

let world: World;
let undisturbed: Awaited<ReturnType<typeof booksAfter>>['counts'];
let points: FaultPoint[];
beforeAll(async () => {
  world = await openWorld();
  const life = await booksAfter(world, { name: 'undisturbed', plans: [{}] });
  undisturbed = life.counts;
  // How long a job has run is noted every two seconds, which only a slow machine reaches.
  const isByClock = ({ name }: FaultPoint) => name === 'commit update job_runs';
  points = (await world.service('undisturbed', []).points()).filter((point) => !isByClock(point));
});
afterAll(() => world?.close());

test('the service takes exactly the durable steps that are listed here', () => {
  expect(namesOf(points)).toMatchInlineSnapshot(`
    [
      "appendFile models/<id>/logs/train.jsonl.gz",
      "appendFile models/<id>/model.json.partial",
      "commit delete checkpoints",
      "commit delete deleted_models",
      "commit delete events",
      "commit delete groups",
      "commit delete idempotency_keys",
      "commit delete jobs",
      "commit delete logs",
      "commit insert deleted_models, delete models",
      "commit insert events, delete job_runs",
      "commit insert groups",
      "commit insert idempotency_keys",
      "commit insert job_runs",
      "commit insert jobs",
      "commit insert logs",
      "commit insert logs, update groups",
      "commit insert models, insert checkpoints",
      "commit insert uploads",
      "commit schema",
      "commit update groups",
      "commit update groups, insert jobs",
      "commit update idempotency_keys",
      "commit update jobs",
      "commit update jobs, insert checkpoints, update models, insert events, delete job_runs",
      "commit update jobs, insert events",
      "commit update jobs, insert events, delete job_runs",
      "commit update uploads",
      "copyFile models/<id>/checkpoints/step-N.partial/model",
      "copyFile models/<id>/checkpoints/step-N.partial/optimizer",
      "mkdir .",
      "mkdir incoming",
      "mkdir jobs",
      "mkdir models",
      "mkdir models/<id>",
      "mkdir models/<id>/checkpoints",
      "mkdir models/<id>/checkpoints/step-N.partial",
      "mkdir models/<id>/checkpoints/step-N.unfinished",
      "mkdir models/<id>/groups",
      "mkdir models/<id>/logs",
      "mkdir scratch",
      "mkdir uploads",
      "open incoming/<id>",
      "open models/<id>/checkpoints/step-N.partial/model",
      "open models/<id>/checkpoints/step-N.partial/optimizer",
      "open models/<id>/checkpoints/step-N.unfinished/model",
      "open models/<id>/checkpoints/step-N.unfinished/optimizer",
      "open models/<id>/logs/train.jsonl.gz",
      "open models/<id>/model.json.partial",
      "open write-check",
      "rename jobs/<id>.jsonl.gz",
      "rename models/<id>/checkpoints/step-N",
      "rename models/<id>/groups/group-<sha>",
      "rename models/<id>/model.json",
      "rename uploads/<sha>.jsonl",
      "rm incoming/<id>",
      "rm jobs/<id>.jsonl.gz",
      "rm models/<id>",
      "rm models/<id>/checkpoints/step-N",
      "rm models/<id>/checkpoints/step-N.partial",
      "rm models/<id>/checkpoints/step-N.unfinished",
      "rm scratch/<id>",
      "rm scratch/<id>.partial",
      "rm write-check",
      "sync incoming/<id>",
      "sync jobs",
      "sync models",
      "sync models/<id>",
      "sync models/<id>/checkpoints",
      "sync models/<id>/checkpoints/step-N.partial",
      "sync models/<id>/checkpoints/step-N.partial/model",
      "sync models/<id>/checkpoints/step-N.partial/optimizer",
      "sync models/<id>/checkpoints/step-N.unfinished",
      "sync models/<id>/checkpoints/step-N.unfinished/model",
      "sync models/<id>/checkpoints/step-N.unfinished/optimizer",
      "sync models/<id>/groups",
      "sync models/<id>/logs",
      "sync models/<id>/logs/train.jsonl.gz",
      "sync models/<id>/model.json.partial",
      "sync uploads",
      "sync write-check",
      "write incoming/<id>",
      "writeFile models/<id>/checkpoints/step-N.unfinished/model",
      "writeFile models/<id>/checkpoints/step-N.unfinished/optimizer",
      "writeFile write-check",
    ]
  `);
  expect(undisturbed.records).toMatchInlineSnapshot(`
    {
      "checkpoints": 6,
      "events": 20,
      "groups": 2,
      "idempotency_keys": 16,
      "jobs": 6,
      "lastSteps": [
        {
          "last_step": 4,
          "name": "first",
        },
        {
          "last_step": 1,
          "name": "fork",
        },
      ],
      "logs": 3,
      "models": 2,
      "uploads": 1,
    }
  `);
});

/**
 * One step of each phase, in the order of the script: a model, an upload, a job's request, its run, its events, its
 * checkpoint, its end, a log, a group, a deletion.
 */
const phases = [
  'commit insert models, insert checkpoints',
  'rename uploads/<sha>.jsonl',
  'commit insert jobs',
  'commit insert job_runs',
  'commit update jobs, insert events',
  'rename models/<id>/checkpoints/step-N',
  'commit update jobs, insert checkpoints, update models, insert events, delete job_runs',
  'appendFile models/<id>/logs/train.jsonl.gz',
  'rename models/<id>/groups/group-<sha>',
  'commit insert groups',
  'rm models/<id>',
];

test('the service killed in each phase, again after each start, ends in the same state', async () => {
  const plans = phases.map((name) => ({ mode: 'kill-half', at: { name, occurrence: 0 } }) as const);
  const { kills, counts } = await booksAfter(world, { name: 'phases', plans });
  expect(kills).toBe(phases.length);
  expect(counts).toEqual(undisturbed);
});

test('the service killed at any step, and at times again afterwards, ends in the same state', {
  tags: ['long'],
}, async () => {
  await byTwo(chosenOf(points), async (at, index) => {
    const kill = { mode: 'kill-half', at } as const;
    const again = {
      mode: 'kill-half',
      at: { name: 'commit update jobs, insert events', occurrence: 0 },
    } as const;
    const plans = index % 8 === 0 ? [kill, again] : [kill];
    const { kills, counts } = await booksAfter(world, { name: `kind ${index}`, plans });
    // The rest of the work may not include that step.
    expect([at, kills >= 1, counts]).toEqual([at, true, undisturbed]);
  });
});

test('the service killed in a job without a signal ends it once, without a checkpoint', {
  tags: ['long'],
}, async () => {
  const life = { script: askWithoutSignal };
  const { counts } = await booksAfter(world, { ...life, name: 'silent', plans: [{}] });
  expect(counts.jobs).toMatchObject({
    silent: {
      ...{ status: 'succeeded', step: 0 },
      events: [
        ['training_started', { num_sequences: 0 }],
        ['training_ended', { step: 0, untrained: { reason: 'no_signal' } }],
      ],
    },
    rl: { status: 'succeeded', step: 1 },
  });
  expect(counts.models).toMatchObject([{ steps: [{ step: 0 }, { step: 1 }] }]);
  const steps = [
    'commit insert jobs',
    'commit insert job_runs',
    'commit update jobs, insert events',
    'commit update jobs, insert events, delete job_runs',
    'rm jobs/<id>.jsonl.gz',
  ].map((name): FaultPoint => ({ name, occurrence: 0 }));
  await byTwo(steps, async (at, index) => {
    const plans = [{ mode: 'kill-after', at }] as const;
    const after = await booksAfter(world, { ...life, name: `silent ${index}`, plans });
    expect([at, after.kills, after.counts]).toEqual([at, 1, counts]);
  });
});

test('the service killed while it repairs what a kill left repairs all of it at the next start', {
  tags: ['long'],
}, async () => {
  const { dataFolder, goOn } = await makeMess(world);
  const start = { from: dataFolder, script: goOn };
  const mended = await booksAfter(world, { ...start, name: 'mended', plans: [{}] });
  const taken = await world.service('mended', []).points();
  // Then the job begins to run again.
  const mending = taken.slice(
    0,
    taken.findIndex(({ name }) => name === 'commit insert job_runs'),
  );
  expect(namesOf(mending)).toMatchInlineSnapshot(`
    [
      "appendFile quarantine/<time>/models/<id>/logs/train.jsonl.gz.from-N",
      "commit delete checkpoints",
      "commit delete deleted_models",
      "commit delete events",
      "commit delete groups",
      "commit delete idempotency_keys",
      "commit delete jobs",
      "commit delete logs",
      "commit schema",
      "commit update jobs",
      "mkdir .",
      "mkdir incoming",
      "mkdir jobs",
      "mkdir models",
      "mkdir quarantine/<time>/jobs",
      "mkdir quarantine/<time>/models/<id>/checkpoints",
      "mkdir quarantine/<time>/models/<id>/groups",
      "mkdir quarantine/<time>/models/<id>/logs",
      "mkdir quarantine/<time>/uploads",
      "mkdir scratch",
      "mkdir uploads",
      "open quarantine/<time>/models/<id>/logs/train.jsonl.gz.from-N",
      "open write-check",
      "rename quarantine/<time>/jobs/<id>.jsonl.gz",
      "rename quarantine/<time>/models/<id>/checkpoints/step-N",
      "rename quarantine/<time>/models/<id>/groups/group-<sha>",
      "rename quarantine/<time>/models/<id>/logs/val.jsonl.gz",
      "rename quarantine/<time>/uploads/<sha>.jsonl",
      "rm incoming/<id>",
      "rm models/<id>",
      "rm models/<id>/checkpoints/step-N.partial",
      "rm models/<id>/checkpoints/step-N.unfinished",
      "rm write-check",
      "sync jobs",
      "sync models/<id>/checkpoints",
      "sync models/<id>/groups",
      "sync models/<id>/logs",
      "sync quarantine/<time>/jobs",
      "sync quarantine/<time>/models/<id>/checkpoints",
      "sync quarantine/<time>/models/<id>/groups",
      "sync quarantine/<time>/models/<id>/logs",
      "sync quarantine/<time>/models/<id>/logs/train.jsonl.gz.from-N",
      "sync quarantine/<time>/uploads",
      "sync uploads",
      "sync write-check",
      "truncate models/<id>/logs/train.jsonl.gz",
      "writeFile write-check",
    ]
  `);
  expect(mended.counts.files).toMatchInlineSnapshot(`
    [
      "incoming",
      "jobs",
      "models",
      "models/<first>",
      "models/<first>/checkpoints",
      "models/<first>/checkpoints/step-1",
      "models/<first>/checkpoints/step-1/model",
      "models/<first>/checkpoints/step-1/optimizer",
      "models/<first>/groups",
      "models/<first>/logs",
      "models/<first>/logs/train.jsonl.gz",
      "models/<first>/model.json",
      "scratch",
      "uploads",
    ]
  `);
  expect(mended.counts.records).toMatchInlineSnapshot(`
    {
      "checkpoints": 2,
      "events": 3,
      "groups": 0,
      "idempotency_keys": 3,
      "jobs": 1,
      "lastSteps": [
        {
          "last_step": 1,
          "name": "first",
        },
      ],
      "logs": 1,
      "models": 1,
      "uploads": 0,
    }
  `);
  expect(mended.counts.logs['first train.jsonl.gz']?.trim().split('\n')).toHaveLength(2);
  // Before the repair it syncs its folders, as at its first start.
  const steps = mending.filter(({ name }) => /^(commit|rm|rename|truncate|appendFile) /.test(name));
  await byTwo(steps, async (at, index) => {
    const plans = [{ mode: 'kill-half', at }] as const;
    const { kills, counts } = await booksAfter(world, { ...start, name: `mending ${index}`, plans });
    expect([at, kills, counts]).toEqual([at, 1, mended.counts]);
  });
});

test.each([
  ['embedded', 'martingale-tiny'],
  ['checkpoint', 'generated'],
] as const)(
  'the service killed in the threads of the engine "%s" ends with the same weights',
  {
    tags: ['long'],
  },
  async (engine, baseModel) => {
    const life = { engine, script: trainEmbedded(baseModel) } as const;
    const { counts } = await booksAfter(world, { ...life, name: engine, plans: [{}] });
    const taken = await world.service(engine, []).points();
    expect(namesOf(taken).filter((name) => name.includes('step-N'))).toMatchInlineSnapshot(`
      [
        "appendFile models/<id>/checkpoints/step-N.unfinished/model.safetensors",
        "appendFile models/<id>/checkpoints/step-N.unfinished/optimizer.safetensors",
        "mkdir models/<id>/checkpoints/step-N.unfinished",
        "open models/<id>/checkpoints/step-N.unfinished/model.safetensors",
        "open models/<id>/checkpoints/step-N.unfinished/optimizer.safetensors",
        "rename models/<id>/checkpoints/step-N",
        "rm models/<id>/checkpoints/step-N",
        "rm models/<id>/checkpoints/step-N.unfinished",
        "sync models/<id>/checkpoints/step-N.unfinished",
        "sync models/<id>/checkpoints/step-N.unfinished/model.safetensors",
        "sync models/<id>/checkpoints/step-N.unfinished/optimizer.safetensors",
      ]
    `);
    const folder = 'models/<id>/checkpoints/step-N';
    const kills: FaultPoint[] = [
      { name: 'commit insert events, delete job_runs', occurrence: 1 },
      { name: `appendFile ${folder}.unfinished/model.safetensors`, occurrence: 0 },
      { name: `rename ${folder}`, occurrence: 0 },
    ];
    for (const at of kills) {
      const plans = [{ mode: 'kill-half', at }] as const;
      const after = await booksAfter(world, { ...life, name: `${engine} ${at.name.length}`, plans });
      expect([at, after.kills, after.counts]).toEqual([at, 1, counts]);
    }
  },
);

const sumOf = (numbers: number[]) => numbers.reduce((sum, number) => sum + number, 0);
const runs = 12 * testScale;

test(`the service killed at random, one to three times in each of ${runs} runs, ends in the same state`, {
  tags: ['long'],
  timeout: runs * 60_000,
}, async () => {
  const mode = fc.constantFrom('kill-before' as const, 'kill-half' as const, 'kill-after' as const);
  const first = fc.record({ mode, at: fc.constantFrom(...points) });
  // What a process continues after another died: the number of each kind is unknown.
  const name = fc.constantFrom(...namesOf(points));
  const further = fc.record({ mode, at: fc.record({ name, occurrence: fc.nat(1) }) });
  const plans = fc
    .tuple(first, fc.array(further, { maxLength: 2 }))
    .map(([kill, rest]) => [kill, ...rest] as const);
  const none = { 'kill-before': 0, 'kill-half': 0, 'kill-after': 0, again: 0, differs: 0 };
  const tally = new Map(namesOf(points).map((kind) => [kind, { ...none }]));
  const failed: unknown[] = [];
  await byTwo(fc.sample(plans, { numRuns: runs, seed: testSeed }), async ([kill, ...rest], index) => {
    const count = tally.get(kill.at.name) ?? none;
    try {
      const { kills, counts } = await booksAfter(world, {
        name: `random ${index}`,
        plans: [kill, ...rest],
      });
      count[kill.mode] += Math.min(kills, 1);
      count.again += Math.max(0, kills - 1);
      expect(counts).toEqual(undisturbed);
    } catch (error) {
      count.differs++;
      failed.push({ kill, rest, error });
    }
  });
  console.table(Object.fromEntries(tally));
  const counts = [...tally.values()];
  const all = counts.reduce((sum, { differs, ...kills }) => sum + sumOf(Object.values(kills)), 0);
  console.log(`${runs} runs with seed ${testSeed}: ${all} kills, ${failed.length} ended otherwise`);
  expect(failed).toEqual([]);
});
