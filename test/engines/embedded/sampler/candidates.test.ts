import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { candidatesOf } from '../../../../src/engines/embedded/sampler/beam-search.ts';

const seed = 20261121;
/** Few values, so that many are equal. */
const sum = fc.constantFrom(-3, -2, -1, 0);
const logprob = fc.constantFrom(-2, -1.5, -1, -0.5, 0, Number.NEGATIVE_INFINITY);

describe('the candidates of a search', () => {
  it('are ordered by sum, then by beam and token, without those of probability 0', () => {
    const beams = fc.array(fc.record({ sum, logprobs: fc.array(logprob) }), { maxLength: 5 });
    fc.assert(
      fc.property(beams, (drawn) => {
        const expected = drawn
          .flatMap(({ sum, logprobs }, beam) =>
            logprobs.map((value, index) => ({ beam, index, sum: sum + value, value })),
          )
          .filter(({ sum }) => sum > Number.NEGATIVE_INFINITY)
          .sort((a, b) => b.sum - a.sum || a.beam - b.beam || b.value - a.value || a.index - b.index)
          .map(({ beam, index, sum }) => ({ beam, index, sum }));
        const weighed = drawn.map(({ sum, logprobs }) => ({
          sum,
          distribution: {
            support: Int32Array.from(logprobs.keys()),
            positions: Int32Array.from(logprobs.keys()),
            offset: 0,
            values: Float64Array.from(logprobs),
            likelihoods: Float64Array.from(logprobs, Math.exp),
            total: 1,
            shift: 0,
            slopes: null,
          },
        }));
        expect([...candidatesOf(weighed)]).toEqual(expected);
      }),
      { seed },
    );
  });
});
