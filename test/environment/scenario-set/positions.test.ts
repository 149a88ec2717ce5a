import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { deriveSeed, type JsonValue, randomSource, ScenarioSet, type ScenarioSource } from 'martingale';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { sharedFolder } from '../../support/files.ts';

type Task = { id: number };
type Source = ScenarioSource<Task> & Pick<ScenarioSet<Task>, 'report'>;

const folder = sharedFolder();
beforeAll(async () => {
  for (let count = 0; count <= 12; count++) {
    // Some long lines, so that a scenario spans what is read at once.
    const line = (id: number) => JSON.stringify({ id, text: 'x'.repeat(id % 5 === 4 ? 90_000 : 3) });
    const lines = Array.from({ length: count }, (_, id) => `${line(id)}\n${id % 3 === 0 ? '\n' : ''}`);
    await writeFile(join(folder, `${count}.jsonl`), lines.join(''));
  }
});

const schema = z.object({ id: z.number() });
const tasks = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));

async function* slowly(count: number, epoch: number) {
  for (let id = 0; id < count; id++) {
    await Promise.resolve();
    yield { id: id * 3 + epoch };
  }
}

function* forEver(start: number) {
  for (let id = start; ; id++) yield { id };
}

/** Builds the same set each time. */
type Build = () => ScenarioSet<Task>;

const base: fc.Arbitrary<Build> = fc.oneof(
  fc.integer({ min: 7, max: 12 }).map(
    (count): Build =>
      () =>
        ScenarioSet.of(tasks(count)),
  ),
  fc.integer({ min: 7, max: 12 }).map(
    (count): Build =>
      () =>
        ScenarioSet.fromJsonLines(join(folder, `${count}.jsonl`), { schema }),
  ),
  fc.integer({ min: 7, max: 12 }).map(
    (count): Build =>
      () =>
        ScenarioSet.generate(({ epoch }) => slowly(count, epoch)),
  ),
  fc.integer({ min: 0, max: 12 }).map(
    (start): Build =>
      () =>
        ScenarioSet.generate(() => forEver(start)),
  ),
);

const step: fc.Arbitrary<(build: Build) => Build> = fc.oneof(
  fc
    .record({ seed: fc.nat(99), buffer: fc.integer({ min: 1, max: 7 }) })
    .map((options) => (build: Build) => () => build().shuffle(options)),
  fc.option(fc.integer({ min: 1, max: 3 })).map((epochs) => (build: Build) => () => {
    // Not after what learns, which is refused.
    const set = build();
    return set.report().length > 0 ? set : set.repeat(epochs ?? undefined);
  }),
  fc.constant((build: Build) => () => build().filter(async ({ id }) => id % 4 !== 1)),
  fc.constant((build: Build) => () => build().map(({ id }) => ({ id: id + 1 }))),
  fc.nat(5).map((seed) => (build: Build) => () => build().split({ a: 0.6, b: 0.4 }, { seed }).a),
  fc
    .record({ groups: fc.constantFrom(1, 2), maxSkippedShare: fc.constantFrom(0, 0.4, 0.8) })
    .map((options) => (build: Build) => () => build().byDifficulty({ ...options, retryEvery: 3 })),
);

const chain: fc.Arbitrary<Build> = fc
  .tuple(base, fc.array(step, { maxLength: 4 }))
  .map(([build, steps]) => steps.reduce((built, add) => add(built), build));

const pipeline: fc.Arbitrary<Build> = fc.oneof(
  chain,
  fc
    .tuple(
      fc.array(fc.tuple(chain, fc.integer({ min: 1, max: 5 })), { minLength: 1, maxLength: 3 }),
      step,
      fc.nat(9),
    )
    .map(([parts, add, seed]) =>
      add(() =>
        ScenarioSet.mix(
          parts.map(([build, weight]) => ({ set: build(), weight })),
          { seed },
        ),
      ),
    ),
);

const saved = (position: JsonValue): JsonValue => JSON.parse(JSON.stringify(position));

/** Draws one or several at a time, and reports results to the set that depend only on the key. */
async function draw(source: Source, sizes: readonly number[]): Promise<string[]> {
  const seen: string[] = [];
  for (const size of sizes) {
    const drawn = await source.take(size);
    seen.push(...drawn.map(({ scenario, key }) => `${key}:${scenario.id}`));
    source.observe(
      drawn.map(({ scenario: { id }, key }) => ({
        key,
        rewards: id % 3 === 0 ? [1, 1] : id % 3 === 1 ? [0, 0] : [0, 1],
      })),
    );
  }
  return seen;
}

/** Ignores the error of repeating sets without scenarios, which another test covers. */
async function orRefusal(work: () => Promise<string[]>): Promise<string[]> {
  try {
    return await work();
  } catch (error) {
    return [String(error)];
  }
}

test('a set at a saved position continues as if nothing had happened, for any set and position', {
  tags: ['long'],
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      pipeline,
      fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 5 }),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
      async (build, first, second) => {
        const whole = build();
        const expected = await orRefusal(async () => {
          await draw(whole, first);
          return draw(whole, second);
        });
        const before = build();
        const resumed = build();
        const got = await orRefusal(async () => {
          await draw(before, first);
          await resumed.seek(saved(before.position()));
          // Taking a position changes nothing either.
          expect(saved(resumed.position())).toEqual(saved(before.position()));
          return draw(resumed, second);
        });
        expect(got).toEqual(expected);
        expect(resumed.report()).toEqual(whole.report());
      },
    ),
    { numRuns: 600, seed: 20_261_121 },
  );
});

test('seeking back in a set in use gives the same as a new set', async () => {
  await fc.assert(
    fc.asyncProperty(pipeline, fc.integer({ min: 1, max: 9 }), async (build, count) => {
      const set = build();
      const start = saved(set.position());
      const seen = await orRefusal(() => draw(set, [count, count]));
      await set.seek(start);
      expect(await orRefusal(() => draw(set, [count, count]))).toEqual(seen);
    }),
    { numRuns: 150, seed: 7 },
  );
});

/** The order in which training draws arrays: Fisher and Yates from the seed of the epoch. */
function epochOrder(items: readonly Task[], seed: number): Task[] {
  const random = randomSource(seed);
  const order = [...items];
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other] ?? { id: -1 }, order[last] ?? { id: -1 }];
  }
  return order;
}

test('a shuffled array gives each scenario once an epoch, in the order that the seed and the epoch decide', async () => {
  const set = ScenarioSet.of(tasks(40)).shuffle({ seed: 11 }).repeat();
  const drawn = (await set.take(120)).map(({ scenario }) => scenario);
  const expected = [0, 1, 2].flatMap((epoch) => epochOrder(tasks(40), deriveSeed(11, epoch)));
  expect(drawn).toEqual(expected);
  // Golden: another order here would change every run with a seed.
  expect(drawn.slice(0, 8).map(({ id }) => id)).toMatchInlineSnapshot(`
    [
      38,
      5,
      2,
      26,
      11,
      35,
      8,
      29,
    ]
  `);
});

test('a position of another set is refused with the first difference: seed, size, content or kind', async () => {
  const set = ScenarioSet.of(tasks(5)).shuffle({ seed: 3 }).repeat();
  await set.take(7);
  const position = set.position();
  const refusal = (other: ScenarioSet<Task>, from: JsonValue = position) =>
    other.seek(from).then(
      () => 'accepted',
      (error: Error) => error.message,
    );
  const base = ScenarioSet.of(tasks(5));
  expect(await refusal(base.shuffle({ seed: 4 }).repeat())).toMatch(
    /`seed` of `shuffle` is 3 in the position and 4/,
  );
  expect(await refusal(base.shuffle({ seed: 3, buffer: 2 }).repeat())).toMatch(
    /`buffer` of `shuffle` is null.* 2/,
  );
  expect(await refusal(ScenarioSet.of(tasks(6)).shuffle({ seed: 3 }).repeat())).toMatch(
    /`size` of `array` is 5.* 6/,
  );
  const others = [...tasks(4), { id: 9 }];
  expect(await refusal(ScenarioSet.of(others).shuffle({ seed: 3 }).repeat())).toMatch(
    /`scenarios` of `array`/,
  );
  expect(await refusal(base.repeat())).toMatch(/has `shuffle` where this set has `array`/);
  const mixed = (weight: number) =>
    ScenarioSet.mix([
      { set: base, weight },
      { set: base, weight: 1 },
    ]);
  expect(await refusal(mixed(2), mixed(1).position())).toMatch(/`parts` of `mix\[0\]|weight.* is 1 .* 2/);
  expect(await refusal(set, { step: 3 })).toMatch(/does not have this version's format/);
  expect(await refusal(set, null)).toMatch(/does not have this version's format/);
  expect(await refusal(set)).toBe('accepted');
});

test('seeking in a generator that generates other scenarios each time is refused', async () => {
  let runs = 0;
  const set = ScenarioSet.generate(() => forEver(100 * runs++));
  await set.take(3);
  await expect(set.seek(set.position())).rejects.toMatchObject({
    code: 'scenario_position_refused',
    message: expect.stringContaining('generated other scenarios'),
  });
  // The position did not change.
  expect((await set.take(1))[0]?.scenario).toEqual({ id: 3 });
});

test('seeking in a changed file is refused', async () => {
  const path = join(folder, 'changing.jsonl');
  await writeFile(path, '{"id":1}\n{"id":2}\n{"id":3}\n');
  const open = () => ScenarioSet.fromJsonLines(path, { schema });
  const set = open();
  await set.take(2);
  const position = set.position();
  await writeFile(path, '{"id":1}\n{"id":7}\n{"id":3}\n');
  await expect(open().seek(position)).rejects.toThrow(/line 2 .*has another scenario there/);
  await writeFile(path, '{"id":1}\n{"id":2}\n{"id":3}\n{"id":4}\n');
  await expect(open().seek(position)).rejects.toThrow(/file with 27 bytes.* has 36/);
});
