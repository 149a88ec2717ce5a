import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type RunEvent, type SftExample, sft, type WarmStart } from 'martingale';
import { describe, expect, test } from 'vitest';
import { loseReply } from '../faults/network/faults.ts';
import { pass } from '../faults/network/proxy.ts';
import {
  createsJob,
  faultAt,
  startTrainingWorld,
  type TrainingWorldOptions,
} from '../faults/network/training-world.ts';

type World = Awaited<ReturnType<typeof startTrainingWorld>>;

const saying = (content: string): SftExample => ({
  messages: [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content },
  ],
});
const examples = ['yes', 'no', 'so'].map(saying);
const warmStart: WarmStart = { examples, batchSize: 2, learningRate: 1e-3 };
const validation = { scenarios: [{ id: 8 }, { id: 9 }] };

/** Number of supervised jobs on the service. */
const jobs = (world: World) => world.count(`SELECT count(*) AS n FROM jobs WHERE kind = 'sft'`);

/** Stops the run in its warm start, as a person does with Ctrl-C. */
async function stopInWarmStart(world: World, started: WarmStart = warmStart) {
  const stop = new AbortController();
  world.engine.hold = async (place) => {
    if (place !== 'train') return;
    stop.abort(new Error('enough'));
    await new Promise<void>(() => {});
  };
  const stopped = await world.train({ steps: 1, warmStart: started, signal: stop.signal });
  world.engine.hold = () => Promise.resolve();
  return stopped;
}

describe('a run with a warm start', () => {
  test('trains on its examples first, then validates, then takes its steps', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const events: RunEvent[] = [];
    const result = await world.train({
      ...{ steps: 1, warmStart, validation },
      onEvent: (event) => events.push(event),
    });
    const told = events.map((event) => (event.type === 'phase' ? event.phase : event.type));
    expect([...new Set(told)].slice(0, 5)).toEqual([
      ...['run_started', 'warm start', 'evaluation before', 'evaluated', 'rollouts'],
    ]);
    expect(result.evaluations.map(({ name, checkpoint }) => [name, checkpoint])).toEqual([
      ['before', 1],
      ['after', 2],
    ]);
    expect(result.reports[0]?.policy).toMatch(/:step1$/);
    expect(await world.checkpoints()).toEqual([0, 1, 2]);
    const config = JSON.parse(await readFile(join(world.runDirectory, 'config.json'), 'utf8'));
    expect(config.warmStart).toEqual({
      ...{ examples: 3, batchSize: 2, learningRate: 1e-3 },
      assistantTurns: 'all',
    });
  });

  test.each<[string, WarmStart['examples']]>([
    [
      'an asynchronous generator',
      (async function* () {
        yield* examples;
      })(),
    ],
    ['a function of the seed', ({ seed }) => [saying(`seed ${seed}`)]],
    ['a function that answers later', async ({ seed }) => [saying(`seed ${seed}`)]],
  ])('takes examples of %s', async (_, given) => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    await world.train({ steps: 1, warmStart: { examples: given } });
    expect(await world.checkpoints()).toEqual([0, 1, 2]);
  });

  test('trains on every assistant message, or with assistantTurns on the last of each conversation', async () => {
    for (const [turns, tokens] of [
      [{}, 3 + 4],
      [{ assistantTurns: 'last' as const }, 4],
    ] as const) {
      await using world = await startTrainingWorld({ knowsKeys: true });
      const messages = [saying('no'), saying('yes')].flatMap((example) => example.messages);
      const phases: RunEvent[] = [];
      await world.train({
        ...{ steps: 1, warmStart: { examples: [{ messages }], ...turns } },
        onEvent: (event) => phases.push(event),
      });
      // A reply has the tokens of its text and an end token.
      expect(phases).toContainEqual(
        expect.objectContaining({
          phase: 'warm start',
          metrics: expect.objectContaining({ num_trainable_tokens: tokens }),
        }),
      );
    }
  });

  test.each<[string, () => WarmStart['examples']]>([
    ['a function that never answers', () => () => new Promise<never>(() => undefined)],
    [
      'an iterable whose next example never comes',
      () =>
        (async function* () {
          yield* examples;
          await new Promise<never>(() => undefined);
        })(),
    ],
  ])('that is stopped while it waits for %s ends at once', async (_, given) => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const stop = new AbortController();
    const ended = world.train({
      ...{ steps: 1, warmStart: { examples: given() }, signal: stop.signal },
      onEvent: ({ type }) => {
        if (type === 'run_started') setImmediate(() => stop.abort(new Error('enough')));
      },
    });
    expect((await ended).reason).toBe('stopped');
  });

  test('that was stopped during it continues it, and reads no example again', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    let reads = 0;
    const readAgain = () => {
      reads++;
      return examples;
    };
    const once: WarmStart = { ...warmStart, examples: readAgain };
    const stopped = await stopInWarmStart(world, once);
    expect([stopped.reason, stopped.finalStep]).toEqual(['stopped', 0]);
    const result = await world.train({ steps: 1, warmStart: once, resume: true });
    expect([result.reason, result.finalStep, reads]).toEqual(['finished', 2, 1]);
    expect(await world.checkpoints()).toEqual([0, 1, 2]);
  });

  test('that is resumed after it does not repeat it', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    await world.train({ steps: 1, warmStart });
    const result = await world.train({ steps: 2, warmStart, resume: true });
    expect([result.finalStep, result.reports.length]).toEqual([3, 2]);
    expect(await jobs(world)).toBe(1);
  });

  test.each([
    ['batchSize', { ...warmStart, batchSize: 3 }, '"batchSize":2'],
    ['examples', { ...warmStart, examples: examples.slice(1) }, '"examples":3'],
    ['nothing of the kind', undefined, 'is absent'],
  ])('is not resumed with %s of another value', async (_, other, message) => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    await stopInWarmStart(world);
    const resumed = world.train({ steps: 1, resume: true, ...(other && { warmStart: other }) });
    await expect(resumed).rejects.toMatchObject({
      code: 'resume_refused',
      message: expect.stringMatching(`\`warmStart\` was .*${message}`),
    });
  });

  test('does not resume if something else has trained the model', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const stop = new AbortController();
    await world.train({
      ...{ steps: 1, warmStart, validation, signal: stop.signal },
      onEvent: ({ type }) => type === 'evaluated' && stop.abort(new Error('enough')),
    });
    await sft({ model: await world.open(), examples });
    const resumed = world.train({ steps: 1, warmStart, validation, resume: true });
    await expect(resumed).rejects.toThrow(/was at local\/network\/coin:step1, but its newest checkpoint/);
  });

  test.each<[string, TrainingWorldOptions]>([
    ['that knows keys', { knowsKeys: true }],
    ['that knows none', { knowsKeys: false }],
  ])('trains once where the answer to its job is lost, on a service %s', async (_, options) => {
    await using world = await startTrainingWorld(options);
    const fault = faultAt(world.proxy, loseReply, createsJob);
    const run = { steps: 1, warmStart, lostJob: { waitMs: 5000 } } as const;
    const result = await world.train(run).catch(() => world.train({ ...run, resume: true }));
    expect(fault.met()).toBeGreaterThan(0);
    expect(result.finalStep).toBe(2);
    expect(await jobs(world)).toBe(1);
  });
});

test.each([
  [
    { messages: [{ role: 'user', content: 'hi' }] },
    '`warmStart.examples[1].messages` is a list of 1: the last message must be an assistant',
  ],
  [{ conversations: [] }, "`warmStart.examples[1]`: conversations is ShareGPT's form"],
  [{ mesages: [] }, '`warmStart.examples[1].messages` is undefined: '],
  [saying(JSON.parse('5')), '`warmStart.examples[1].messages[1].content` is 5: '],
  ['hi', '`warmStart.examples[1]` is "hi": '],
])(
  'an example that cannot be trained on, %j, is refused by its place before the upload',
  async (bad, message) => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const uploads: string[] = [];
    world.proxy.fault = ({ path }) => {
      if (path.includes('upload')) uploads.push(path);
      return pass;
    };
    const refused = { examples: JSON.parse(JSON.stringify([saying('yes'), bad])) };
    await expect(world.train({ warmStart: refused })).rejects.toThrow(message);
    expect(uploads).toEqual([]);
  },
);

test.each([
  [{ examples: [] }, '`warmStart.examples` is empty'],
  [{ examples, batchSize: 0 }, '`warmStart.batchSize` is 0'],
  [
    JSON.parse(JSON.stringify({ examples, assistantTurns: 'first' })),
    '`warmStart.assistantTurns` is "first"',
  ],
  [{ examples, learningRate: [1e-3, -1] }, '`warmStart.learningRate` has -1'],
])('a warm start of %j is refused before anything begins', async (refused, message) => {
  await using world = await startTrainingWorld({ knowsKeys: true });
  await expect(world.train({ warmStart: refused })).rejects.toThrow(message);
});
