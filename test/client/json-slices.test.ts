import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonInSlices } from '../../src/client/json-slices.ts';

describe('jsonInSlices', () => {
  it('writes the same value as JSON.stringify', async () => {
    const head = fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), fc.jsonValue());
    await fc.assert(
      fc.asyncProperty(head, fc.array(fc.jsonValue()), async (rest, items) => {
        const text = Buffer.concat(await jsonInSlices({ ...rest, trajectory_groups: items })).toString();
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify({ ...rest, trajectory_groups: items })));
      }),
      { seed: 8, numRuns: 200 },
    );
  });

  it('leaves ticks for other work while it writes a long list', async () => {
    const items = Array.from({ length: 200 }, () => Array.from({ length: 5000 }, (_, index) => index / 7));
    let turns = 0;
    let writing = true;
    const count = async () => {
      while (writing) {
        turns++;
        await nextTurn();
      }
    };
    const counting = count();
    await jsonInSlices({ items });
    writing = false;
    await counting;
    expect(turns).toBeGreaterThan(3);
  });
});
