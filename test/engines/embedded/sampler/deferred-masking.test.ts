import { afterEach, describe, expect, it, vi } from 'vitest';
import { BeamSearch } from '../../../../src/engines/embedded/sampler/beam-search.ts';
import { DeferredMasking } from '../../../../src/engines/embedded/sampler/deferred-masking.ts';
import type { Pool } from '../../../../src/engines/embedded/sampler/pool.ts';
import type { Sequence } from '../../../../src/engines/embedded/sampler/sequence.ts';
import { logitRows } from '../logit-rows.ts';
import { codec, openPool, ordinary, sequenceOf, textOf } from './support.ts';

/**
 * Every text leads to thousands of places, through which a set of legal tokens takes long. Each time another, of the
 * same language: what has been computed of one is remembered.
 */
let heavies = 0;
const heavy = () =>
  textOf({
    type: 'regex',
    pattern: `${'('.repeat(++heavies)}(.*[a-p ].{900})|(.*[d-z ].{1100})|(.*[a-z].{1300})${')'.repeat(heavies)}`,
  });
const light = textOf({ type: 'regex', pattern: '[a-z]{30}' });

/** A clock that goes on by so many milliseconds each time it is looked at. */
function slowClock(ms: number) {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => {
    now += ms;
    return now;
  });
}

afterEach(() => vi.restoreAllMocks());

/** How many steps of its pool each reply takes. */
async function stepsOf(pool: Pool, sequences: readonly Sequence[]): Promise<number[]> {
  const steps = sequences.map(() => 0);
  while (!pool.idle) {
    for (const [index, { ended }] of sequences.entries()) if (!ended) steps[index] = (steps[index] ?? 0) + 1;
    await pool.step();
  }
  return steps;
}

describe('a heavy constraint', () => {
  it('delays its own reply, while others take a token in every step', async () => {
    const replies = (constraint = heavy()) =>
      Promise.all([
        sequenceOf({ constraint, seed: 1, maxTokens: 4 }),
        sequenceOf({ constraint, seed: 2, maxTokens: 4 }),
        sequenceOf({ seed: 3, maxTokens: 12 }),
        sequenceOf({ constraint: light, seed: 4, maxTokens: 12 }),
      ]);
    const at = (index: number) => ({ ...ordinary, tenant: index < 2 ? 'heavy' : 'other' });
    const free = await replies();
    const { pool: first } = await openPool();
    for (const [index, sequence] of free.entries()) first.add(sequence, at(index));
    await stepsOf(first, free);

    // A slice is over after some steps through the tokens, of which each set of the heavy one takes hundreds.
    slowClock(0.4);
    const held = await replies();
    const { pool } = await openPool();
    for (const [index, sequence] of held.entries()) pool.add(sequence, at(index));
    const [one = 0, other = 0, plain, constrained = 0] = await stepsOf(pool, held);
    expect(plain).toBe(12);
    expect(one).toBeGreaterThan(12);
    expect(other).toBeGreaterThan(12);
    expect(constrained).toBeLessThan(one);
    // When a token is chosen does not change which one it is.
    expect(held.map(({ tokens }) => tokens)).toEqual(free.map(({ tokens }) => tokens));
    expect(held.map((sequence) => sequence.finish().logprobs)).toEqual(
      free.map((sequence) => sequence.finish().logprobs),
    );
  });

  it('delays its own search, which finds the same', async () => {
    const search = async () => {
      const root = await sequenceOf({ constraint: heavy(), maxTokens: 3 });
      const { pool } = await openPool();
      const found = new BeamSearch(root, { width: 3, lengthPenalty: 1, maxTokens: 3 });
      pool.add(found, ordinary);
      let steps = 0;
      for (; !pool.idle; steps++) await pool.step();
      return { steps, replies: found.finish().map(({ tokens }) => tokens) };
    };
    slowClock(0);
    const free = await search();
    slowClock(0.2);
    const held = await search();
    expect(held.steps).toBeGreaterThan(free.steps);
    expect(held.replies).toEqual(free.replies);
  });

  it('ends with its reply, also in the middle', async () => {
    slowClock(0.2);
    const { pool } = await openPool();
    const sequence = await sequenceOf({ constraint: heavy(), maxTokens: 4 });
    pool.add(sequence, ordinary);
    for (let step = 0; step < 3; step++) await pool.step();
    expect(sequence.ended).toBe(false);
    pool.cancel(sequence);
    await pool.step();
    expect(pool.idle).toBe(true);
  });
});

describe('deferred masking', () => {
  it("lets tenants take turns, so that light constraints do not wait for another tenant's heavy ones", async () => {
    let now = 0;
    // A look at the clock is a millisecond: a turn is two steps.
    const deferredMasking = new DeferredMasking(() => now++);
    const logits = logitRows(new Float32Array(codec.tokenizer.vocabularySize));
    const chosen: string[] = [];
    const add = async (tenant: string, name: string, steps: number) => {
      const sequence = await sequenceOf();
      let left = steps;
      vi.spyOn(sequence, 'prepare').mockImplementation((isOver) => {
        while (left > 0 && !isOver()) left--;
        return left === 0;
      });
      vi.spyOn(sequence, 'choose').mockImplementation(() => {
        chosen.push(name);
      });
      deferredMasking.add(tenant, { sequence, answer: sequence, logits });
    };
    for (let at = 1; at <= 5; at++) await add('a', `a${at}`, 20);
    await add('b', 'b1', 1);
    await add('b', 'b2', 1);
    deferredMasking.run(20);
    expect(chosen).toEqual(['b1', 'b2']);
    for (let step = 0; step < 100; step++) deferredMasking.run(20);
    expect(chosen).toEqual(['b1', 'b2', 'a1', 'a2', 'a3', 'a4', 'a5']);
  });
});
