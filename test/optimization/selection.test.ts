import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  bestOf,
  drawCandidate,
  frontOf,
  isBetter,
  minibatchOf,
  nextText,
  winsOf,
} from '../../src/optimization/selection.ts';

const rewards = z.array(z.array(z.number()));
const fixture = z
  .object({
    runs: z.array(
      z.object({
        names: z.array(z.string()),
        candidates: rewards,
        best: z.number(),
        iterations: z.array(
          z.object({
            parent: z.number(),
            before: z.array(z.number()),
            text: z.string().optional(),
            after: z.array(z.number()).optional(),
            accepted: z.number().nullable(),
          }),
        ),
      }),
    ),
    tables: z.array(
      z.object({ rewards, wins: z.array(z.tuple([z.number(), z.number()])), best: z.number() }),
    ),
  })
  .parse(JSON.parse(await readFile(new URL('fixtures/gepa.json', import.meta.url), 'utf8')));

describe('as the package gepa', () => {
  test('candidates have the same wins, and the same one is the best', () => {
    for (const table of fixture.tables) {
      expect([...winsOf(table.rewards)]).toEqual(table.wins);
      expect(bestOf(table.rewards)).toBe(table.best);
    }
  });

  test('runs take the same texts in turn, and accept the same proposals', () => {
    let accepted = 0;
    for (const { names, candidates, iterations, best } of fixture.runs) {
      const history: Parameters<typeof nextText>[2][number][] = [
        { parent: null, text: null, candidate: { number: 0 } },
      ];
      let known = 1;
      for (const { parent, before, text, after, accepted: number } of iterations) {
        expect([...winsOf(candidates.slice(0, known)).keys()]).toContain(parent);
        expect(text === undefined).toBe(before.every((reward) => reward === 1));
        if (text === undefined) continue;
        expect(nextText(names, parent, history)).toBe(text);
        expect(isBetter(before, after ?? []).isBetter).toBe(number !== null);
        const candidate = number === null ? null : { number };
        history.push({ parent, text, candidate });
        if (candidate) expect(candidate.number).toBe(known++);
        accepted += Number(number !== null);
      }
      expect(known).toBe(candidates.length);
      expect(bestOf(candidates)).toBe(best);
    }
    expect(accepted).toBeGreaterThan(40);
  });
});

const tables = fc
  .tuple(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 6 }))
  .chain(([candidates, scenarios]) =>
    fc.array(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: scenarios, maxLength: scenarios }), {
      minLength: candidates,
      maxLength: candidates,
    }),
  );

test('those who stay win every scenario together, and nobody who stays is unnecessary', () => {
  fc.assert(
    fc.property(tables, (table) => {
      const front = frontOf(table);
      const wins = winsOf(table);
      for (const winners of front) expect(winners.some((one) => wins.has(one))).toBe(true);
      for (const one of wins.keys()) {
        const isNeeded = front.some(
          (winners) => winners.includes(one) && !winners.some((other) => other !== one && wins.has(other)),
        );
        expect(isNeeded).toBe(true);
      }
    }),
  );
});

test('a draw gives a candidate as often as it wins scenarios', () => {
  const table = [
    [1, 1, 1, 0],
    [0, 0, 0, 1],
  ];
  const draws = Array.from({ length: 8 }, (_, at) => drawCandidate(table, at / 8));
  expect(draws).toEqual([0, 0, 0, 0, 0, 0, 1, 1]);
});

test('each pass of minibatches has every scenario, and passes differ', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 1, max: 5 }),
      fc.nat(),
      (scenarios, wanted, seed) => {
        const size = Math.min(wanted, scenarios);
        const perPass = Math.ceil(scenarios / size);
        const batches = Array.from({ length: perPass }, (_, at) =>
          minibatchOf(at, { seed, size, scenarios }),
        );
        for (const batch of batches) expect(new Set(batch).size).toBe(size);
        expect(new Set(batches.flat()).size).toBe(scenarios);
      },
    ),
  );
  const passes = [0, 1, 2, 3].map((pass) => minibatchOf(pass, { seed: 3, size: 20, scenarios: 20 }).join());
  expect(new Set(passes).size).toBe(4);
});

test('a proposal that loses a scenario is not better, and a new one alone does not count', () => {
  expect(isBetter([0, 1], [5, null])).toEqual({
    isBetter: false,
    because: '1 of 2 scenarios did not complete',
  });
  expect(isBetter([0, null], [0, 5]).isBetter).toBe(false);
  expect(isBetter([0, null], [1, null]).isBetter).toBe(true);
  expect(isBetter([1, 1], [1, 1]).isBetter).toBe(false);
});
