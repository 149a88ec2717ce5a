import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { ScenarioSet, type ScenarioSource, scenarioKey } from 'martingale';
import { toScenarioSource } from 'martingale/loop';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { sharedFolder } from '../../support/files.ts';

const folder = sharedFolder();

const tasks = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));
const ids = async (source: ScenarioSource<{ id: number }>, count: number) =>
  (await source.take(count)).map(({ scenario }) => scenario.id);
function* forEver() {
  for (let id = 0; ; id++) yield { id };
}

test('an array for training is shuffled by seed and repeats; a source is taken as it is', async () => {
  const drawn = await ids(toScenarioSource(tasks(10), 5), 20);
  expect(drawn).toEqual(await ids(ScenarioSet.of(tasks(10)).shuffle({ seed: 5 }).repeat(), 20));
  expect([...drawn.slice(0, 10)].sort((a, b) => a - b)).toEqual(tasks(10).map(({ id }) => id));
  expect(drawn.slice(0, 10)).not.toEqual(drawn.slice(10));
  const set = ScenarioSet.of(tasks(3));
  expect(toScenarioSource(set, 5)).toBe(set);
});

test('a finite set gives fewer scenarios at its end, then none', async () => {
  const set = ScenarioSet.of(tasks(5)).repeat(2);
  expect(set.size).toBe(10);
  expect(await ids(set, 8)).toHaveLength(8);
  expect(await ids(set, 8)).toEqual([3, 4]);
  expect(await ids(set, 8)).toEqual([]);
});

test('an endless repetition of an empty set is refused', async () => {
  await expect(ScenarioSet.of<number>([]).repeat().take(1)).rejects.toThrow(/is empty/);
  const none = ScenarioSet.of(tasks(3)).filter(() => false);
  await expect(none.repeat().take(1)).rejects.toThrow(/is empty/);
  const late = ScenarioSet.of(tasks(3))
    .repeat()
    .filter(() => false);
  await expect(late.take(1)).rejects.toThrow(/`filter` removed 1000000 scenarios in a row/);
});

test('a generator receives the number of its epoch', async () => {
  const set = ScenarioSet.generate(function* ({ epoch }) {
    yield { id: epoch * 10 };
    yield { id: epoch * 10 + 1 };
  }).repeat(3);
  expect(await ids(set, 9)).toEqual([0, 1, 10, 11, 20, 21]);
});

test('a buffer shuffles a stream in blocks of its size and loses nothing', async () => {
  const set = ScenarioSet.generate(forEver).shuffle({ seed: 2, buffer: 10 });
  const drawn = await ids(set, 100);
  for (let block = 0; block < 10; block++) {
    const part = drawn.slice(block * 10, block * 10 + 10);
    expect([...part].sort((a, b) => a - b)).toEqual(tasks(10).map(({ id }) => block * 10 + id));
  }
  expect(drawn).not.toEqual(tasks(100).map(({ id }) => id));
  expect(() => ScenarioSet.generate(forEver).shuffle()).toThrow(/Pass a whole number of scenarios/);
  expect(() => ScenarioSet.of(tasks(2)).repeat().shuffle()).toThrow(/before `.repeat\(\)`/);
});

test('splits are disjoint and complete, and the same for any order, neighbours and kind of set', async () => {
  const shares = { train: 0.8, val: 0.1, test: 0.1 };
  const all = tasks(5000);
  const splits = ScenarioSet.of(all).split(shares);
  const { train, val, test: held } = splits;
  const trainIds = await ids(train, 9999);
  const valIds = await ids(val, 9999);
  const testIds = await ids(held, 9999);
  expect([...trainIds, ...valIds, ...testIds].sort((a, b) => a - b)).toEqual(all.map(({ id }) => id));
  expect(train.size).toBe(trainIds.length);
  // Five standard deviations of a binomial share.
  expect(Math.abs(trainIds.length - 4000)).toBeLessThan(5 * Math.sqrt(5000 * 0.8 * 0.2));
  expect(Math.abs(valIds.length - 500)).toBeLessThan(5 * Math.sqrt(5000 * 0.1 * 0.9));

  const streamed = ScenarioSet.generate(forEver).split({ test: 0.1, val: 0.1, train: 0.8 }).val;
  expect(await ids(streamed, 20)).toEqual(valIds.slice(0, 20));
  const reversed = await ids(ScenarioSet.of([...all].reverse().slice(0, 100)).split(shares).val, 100);
  expect(reversed.every((id) => valIds.includes(id))).toBe(true);
});

test('a split with `by` keeps scenarios with the same value together', async () => {
  const files = Array.from({ length: 300 }, (_, id) => ({ id, repository: `r${id % 30}` }));
  const { a, b } = ScenarioSet.of(files).split({ a: 0.5, b: 0.5 }, { by: ({ repository }) => repository });
  const repositories = async (set: typeof a) => new Set((await set.toArray()).map((file) => file.repository));
  const [inA, inB] = [await repositories(a), await repositories(b)];
  expect(inA.size + inB.size).toBe(30);
  expect(inA.size).toBeGreaterThan(5);
  expect(() => ScenarioSet.of(files).split({ a: 0.5, b: 0.4 })).toThrow(/add up to 0.9/);
  expect(() => ScenarioSet.of(files).split({ a: 1.5, b: -0.5 })).toThrow(/`shares.a` is 1.5/);
});

test('a mix draws by weight, prefixes the keys of its sets, and continues without a set that has ended', async () => {
  const of = (kind: string, count: number) =>
    ScenarioSet.of(Array.from({ length: count }, (_, id) => ({ id, kind })));
  const mix = () =>
    ScenarioSet.mix(
      [
        { set: of('easy', 7).repeat(), weight: 3, name: 'easy' },
        { set: of('hard', 5).repeat(), weight: 1 },
      ],
      { seed: 4 },
    );
  const drawn = await mix().take(4000);
  const easy = drawn.filter(({ scenario }) => scenario.kind === 'easy');
  expect(Math.abs(easy.length - 3000)).toBeLessThan(5 * Math.sqrt(4000 * 0.75 * 0.25));
  expect(
    drawn.every(({ key, scenario: { id, kind } }) => key === `${kind === 'easy' ? 'easy' : '1'}/${id}`),
  ).toBe(true);
  expect(await mix().take(4000)).toEqual(drawn);

  const ending = ScenarioSet.mix([
    { set: of('a', 3), weight: 100 },
    { set: of('b', 4), weight: 1 },
  ]);
  expect(ending.size).toBe(7);
  expect((await ending.take(20)).map(({ key }) => key).sort()).toEqual([
    '0/0',
    '0/1',
    '0/2',
    '1/0',
    '1/1',
    '1/2',
    '1/3',
  ]);
  expect(() => ScenarioSet.mix([{ set: of('a', 1), weight: 0 }])).toThrow(/`sets\[0\].weight` is 0/);
});

/** Draws `count` scenarios, and reports the rewards of a group after each. */
async function learn(set: ScenarioSet<{ id: number }>, count: number, rewards: (id: number) => number[]) {
  const given: number[] = [];
  for (let draw = 0; draw < count; draw++) {
    for (const { scenario, key } of await set.take(1)) {
      given.push(scenario.id);
      set.observe([{ key, rewards: rewards(scenario.id) }]);
    }
  }
  return given;
}

test('scenarios that are always or never solved are skipped, retried and counted', async () => {
  const set = ScenarioSet.of(tasks(10))
    .repeat()
    .byDifficulty({ groups: 2, maxSkippedShare: 0.9, retryEvery: 3 });
  // 0 to 3 are solved, 4 to 6 are not, 7 gives equal rewards in between, 8 and 9 teach.
  const rewards = (id: number) => (id < 4 ? [1, 1] : id < 7 ? [0, 0] : id === 7 ? [0.5, 0.5] : [0, 1]);
  expect(await learn(set, 20, rewards)).toEqual([...tasks(10), ...tasks(10)].map(({ id }) => id));
  expect(set.report()).toEqual([
    {
      name: '',
      alwaysSolved: 4,
      neverSolved: 3,
      alwaysEqual: 1,
      inPlay: 2,
      draws: 20,
      skipped: 0,
      bounds: {
        groups: 2,
        solvedAt: 1,
        unsolvedAt: 0,
        maxSkippedShare: 0.9,
        retryEvery: 3,
        floor: 1,
        remember: 100_000,
      },
    },
  ]);
  // Two epochs without them, then one with.
  expect(await learn(set, 14, rewards)).toEqual([8, 9, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(set.report()).toMatchObject([{ draws: 50, skipped: 16 }]);
  // A scenario whose rewards differ again comes back.
  const changed = (id: number) => (id === 0 ? [0, 1] : rewards(id));
  await learn(set, 14, changed);
  expect(set.report()).toMatchObject([{ alwaysSolved: 3, inPlay: 3 }]);
  expect(await learn(set, 3, changed)).toEqual([0, 8, 9]);
});

test('the skipped share stays within its bound at every draw, and the floor holds', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 12 }),
      fc.constantFrom(0, 0.3, 0.5, 0.9),
      fc.integer({ min: 0, max: 6 }),
      fc.nat(12),
      async (count, maxSkippedShare, floor, hard) => {
        const set = ScenarioSet.of(tasks(count)).shuffle().repeat().byDifficulty({ maxSkippedShare, floor });
        for (let draw = 0; draw < 60; draw++) {
          await learn(set, 1, (id) => (id < hard ? [0, 1] : [1, 1, 1]));
          const [report] = set.report();
          if (!report) throw new TypeError('no report');
          expect(report.skipped).toBeLessThanOrEqual(maxSkippedShare * report.draws);
          expect(report.draws - report.skipped).toBe(draw + 1);
          if (Math.min(hard, count) < floor && report.skipped > 0)
            // Skipped only while fewer groups than it takes to be judged were known of some.
            expect(draw).toBeLessThan(2 * count);
        }
      },
    ),
    { numRuns: 60, seed: 3 },
  );
});

test('with everything solved, half of the draws are skipped if the bound is a half', async () => {
  const set = ScenarioSet.of(tasks(1)).repeat().byDifficulty({ groups: 1, floor: 0, retryEvery: 1000 });
  await learn(set, 4, () => [1, 1]);
  expect(set.report()).toMatchObject([{ alwaysSolved: 1, inPlay: 0, draws: 7, skipped: 3 }]);
  const floored = ScenarioSet.of(tasks(1)).repeat().byDifficulty({ groups: 1, retryEvery: 1000 });
  await learn(floored, 4, () => [1, 1]);
  expect(floored.report()).toMatchObject([{ alwaysSolved: 1, inPlay: 0, draws: 4, skipped: 0 }]);
});

test('`remember` limits the scenarios with results; the least recently drawn is dropped first', async () => {
  const set = ScenarioSet.generate(forEver).byDifficulty({ groups: 1, remember: 5 });
  await learn(set, 20, () => [1, 1]);
  expect(set.report()).toMatchObject([{ alwaysSolved: 5, inPlay: 0 }]);
  expect(JSON.stringify(set.position())).toMatch(/\["15","s",0\].*\["19","s",0\]/);
  expect(JSON.stringify(set.position())).not.toContain('["14"');
});

test('groups of fewer than two rewards, and scenarios that were not drawn, change nothing', async () => {
  const set = ScenarioSet.of(tasks(2)).repeat().byDifficulty({ groups: 1 });
  await set.take(2);
  set.observe([
    { key: '0', rewards: [1] },
    { key: '1', rewards: [] },
    { key: 'nobody', rewards: [1, 1] },
  ]);
  expect(set.report()).toMatchObject([{ alwaysSolved: 0, inPlay: 2 }]);
});

test('in a mix each set learns from its own scenarios, even if ids are equal', async () => {
  const part = () => ScenarioSet.of(tasks(3)).repeat().byDifficulty({ groups: 1 });
  const mix = ScenarioSet.mix([
    { set: part(), weight: 1, name: 'a' },
    { set: part(), weight: 1, name: 'b' },
  ]);
  await mix.take(40);
  mix.observe(['a/0', 'a/1', 'b/0'].map((key) => ({ key, rewards: [1, 1] })));
  expect(mix.report()).toMatchObject([
    { name: 'a/', alwaysSolved: 2, inPlay: 1 },
    { name: 'b/', alwaysSolved: 1, inPlay: 2 },
  ]);
  expect(() => mix.repeat()).toThrow(/Put `.byDifficulty\(\)` after `.repeat\(\)`/);
});

test('invalid options are refused by name', () => {
  const set = ScenarioSet.of(tasks(2));
  expect(() => set.byDifficulty({ maxSkippedShare: 1 })).toThrow(/`maxSkippedShare` is 1/);
  expect(() => set.byDifficulty({ groups: 0 })).toThrow(/`groups` is 0/);
  expect(() => set.byDifficulty({ solvedAt: 0 })).toThrow(
    /`unsolvedAt` is 0. Pass a number below `solvedAt`, which is 0/,
  );
  expect(() => set.repeat(0)).toThrow(/`epochs` is 0/);
  expect(() => set.shuffle({ buffer: 0 })).toThrow(/`buffer` is 0/);
  expect(() => set.take(1.5)).toThrow(/`count` is 1.5/);
});

test('an error names the invalid line of a file, and the same take can be repeated', async () => {
  const path = join(folder, 'tasks.jsonl');
  const schema = z.object({ id: z.number() });
  const write = (...lines: string[]) => writeFile(path, `\uFEFF${lines.join('\r\n')}`);
  const set = ScenarioSet.fromJsonLines(path, { schema });
  await expect(set.take(1)).rejects.toMatchObject({ code: 'invalid_scenario_file', line: null, path });
  await write('{"id":1}', '', '{"id":2}', '{"id":"three"}', '{"id":4}');
  expect(await ids(set, 1)).toEqual([1]);
  await expect(set.take(3)).rejects.toThrow(`${path}:4: The scenario does not fit the schema`);
  await expect(set.take(3)).rejects.toMatchObject({ line: 4 });
  // The failed calls of take drew nothing.
  expect(await ids(set, 1)).toEqual([2]);
  await write('{"id":1}', '{"id":2', '{"id":3}');
  await expect(ScenarioSet.fromJsonLines(path).toArray()).rejects.toThrow(`${path}:2: The line is not JSON`);
  const whole = async (text: string) => {
    await writeFile(path, text);
    return await ScenarioSet.fromJsonLines(path).toArray();
  };
  for (const notJson of ['{"id":NaN}', '[\n{"id":1}\n]', 'id\n1'])
    await expect(whole(notJson)).rejects.toThrow('Each line must be one JSON value; NaN');
  await expect(whole('version https://git-lfs.github.com/spec/v1\nsize 1')).rejects.toThrow(
    `${path}: is a pointer of Git LFS, not the file itself`,
  );
  await writeFile(path, Buffer.from([0x22, 0xff, 0x22]));
  await expect(ScenarioSet.fromJsonLines(path).take(1)).rejects.toThrow(`${path}:1: The line is not UTF-8`);
});

test('a whole number of a file whose digits JavaScript does not keep is refused where the scenario has it', async () => {
  const path = join(folder, 'long-numbers.jsonl');
  const line =
    '{"id":2512292042121000001,"text":"9007199254740993","exact":100000000000000000000,"near":0.1234567890123456789}';
  await writeFile(path, line);
  const read = (schema: z.ZodType) => ScenarioSet.fromJsonLines(path, { schema }).toArray();
  const message = `${path}:1: The scenario has the number 2512292042121000001, of which JavaScript keeps 2512292042121000000. Write it as a text: "2512292042121000001".`;
  for (const id of [z.number(), z.coerce.string(), z.coerce.bigint(), z.number().transform((id) => [{ id }])])
    await expect(read(z.object({ id }))).rejects.toThrow(message);
  // What the schema leaves out does no harm.
  expect(await read(z.object({ text: z.string(), exact: z.number(), near: z.number() }))).toEqual([
    { text: '9007199254740993', exact: 1e20, near: 0.12345678901234568 },
  ]);
});

test('lines may end anywhere in a chunk', async () => {
  const path = join(folder, 'boundary.jsonl');
  const schema = z.string();
  // A line feed is the last byte of the first 65,536, the first of the next, or in the middle; with and without a last
  // one.
  for (const length of [65_532, 65_533, 65_534, 65_535, 131_069, 131_070, 131_071]) {
    const texts = ['x'.repeat(length), 'é'.repeat(40_000), 'short'];
    for (const end of ['', '\n']) {
      await writeFile(path, texts.map((line) => JSON.stringify(line)).join('\n') + end);
      expect(await ScenarioSet.fromJsonLines(path, { schema }).toArray()).toEqual(texts);
    }
  }
});

test('a file is read once an epoch while it is drawn from, and shuffled whole', async () => {
  const path = join(folder, 'many.jsonl');
  await writeFile(
    path,
    tasks(3000)
      .map((task) => `${JSON.stringify(task)}\n`)
      .join(''),
  );
  const set = ScenarioSet.fromJsonLines(path, { schema: z.object({ id: z.number() }) });
  const drawn = await ids(set.shuffle({ seed: 1 }).repeat(), 6000);
  const shuffled = ScenarioSet.of(tasks(3000)).shuffle({ seed: 1 }).repeat();
  expect(drawn).toEqual(await ids(shuffled, 6000));
  expect(await set.toArray()).toEqual(tasks(3000));
});

test('overlapping takes run one after the other', async () => {
  const set = ScenarioSet.generate(async function* () {
    for (let id = 0; id < 30; id++) {
      await new Promise((resolve) => setImmediate(resolve));
      yield { id };
    }
  });
  const takes = await Promise.all([ids(set, 10), ids(set, 3), ids(set, 20)]);
  expect(takes.flat()).toEqual(tasks(30).map(({ id }) => id));
  expect(takes.map((taken) => taken.length)).toEqual([10, 3, 17]);
});

test('during a take the position is the one before it, with the results observed meanwhile', async () => {
  const gate = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  const build = (wait: Promise<void>) =>
    ScenarioSet.generate(async function* () {
      yield { id: 0 };
      yield { id: 1 };
      reached.resolve();
      await wait;
      yield { id: 2 };
    })
      .repeat()
      .byDifficulty({ groups: 1 });
  const set = build(gate.promise);
  await set.take(2);
  const taking = set.take(1);
  await reached.promise;
  set.observe([{ key: '0', rewards: [1, 1] }]);
  const position = set.position();
  gate.resolve();
  await taking;
  const resumed = build(Promise.resolve());
  await resumed.seek(position);
  expect(resumed.report()).toMatchObject([{ alwaysSolved: 1 }]);
  expect(await ids(resumed, 1)).toEqual([2]);
});

test('a take that hangs can be aborted and takes nothing', async () => {
  let hang = true;
  const set = ScenarioSet.generate(async function* () {
    yield { id: 0 };
    if (hang) await new Promise(() => undefined);
    yield { id: 1 };
  });
  const stop = new AbortController();
  const hanging = set.take(2, { signal: stop.signal });
  const behind = set.take(2, { signal: stop.signal });
  stop.abort(new Error('Ctrl-C'));
  await expect(hanging).rejects.toThrow('Ctrl-C');
  await expect(behind).rejects.toThrow('Ctrl-C');
  hang = false;
  expect(await ids(set, 2)).toEqual([0, 1]);
});

test('closing ends the generator, and the next take continues at the same position', async () => {
  let open = 0;
  const set = ScenarioSet.generate(function* () {
    open++;
    try {
      yield* forEver();
    } finally {
      open--;
    }
  });
  expect(await ids(set, 3)).toEqual([0, 1, 2]);
  await set.close();
  expect(open).toBe(0);
  expect(await ids(set, 2)).toEqual([3, 4]);
});

test('a key is the id, else a hash of the content, whatever the order of fields', () => {
  expect(scenarioKey({ id: 7, text: 'a' })).toBe('7');
  expect(scenarioKey({ id: 'seven' })).toBe('seven');
  expect(scenarioKey({ a: 1, b: { c: 2, d: [3] } })).toBe(scenarioKey({ b: { d: [3], c: 2 }, a: 1 }));
  expect(scenarioKey({ a: 1 })).not.toBe(scenarioKey({ a: 2 }));
  expect(scenarioKey('text')).toMatch(/^[0-9a-f]{20}$/);
  expect(() => scenarioKey({ big: 1n })).toThrow(/cannot be written as JSON/);
  expect(() => scenarioKey(undefined)).toThrow(/it is undefined/);
});

test('a mapped scenario keeps its key, which a key function may give', async () => {
  const set = ScenarioSet.of([{ name: 'a' }, { name: 'b' }], { key: ({ name }) => name }).map(({ name }) => ({
    prompt: `do ${name}`,
  }));
  expect(await set.take(2)).toEqual([
    { key: 'a', scenario: { prompt: 'do a' } },
    { key: 'b', scenario: { prompt: 'do b' } },
  ]);
});

test('a take without end leaves the event loop free and can be aborted', async () => {
  const set = ScenarioSet.generate(function* () {
    for (let id = 0; id < 1_000_000; id++) yield { id };
    throw new Error('nothing stopped it');
  });
  const stop = new AbortController();
  setImmediate(() => stop.abort(new Error('enough')));
  await expect(set.toArray({ signal: stop.signal })).rejects.toThrow('enough');
});
