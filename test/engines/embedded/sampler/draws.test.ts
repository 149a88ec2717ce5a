import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { outputChoices } from '../../../../src/engines/embedded/graphs/token-choices.ts';
import { Graph } from '../../../../src/engines/embedded/onnx/graph.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { type Draw, DrawFeeds, type Drawn } from '../../../../src/engines/embedded/sampler/draws.ts';

describe.each(['onnxruntime-node', 'onnxruntime-web'] as const)('tokens chosen by a graph on %s', (name) => {
  describe.each([1, 97, 360, 1024])('of a vocabulary of %i', async (vocabularySize) => {
    const runtime = await loadRuntime(name, 1);
    const graph = new Graph();
    graph.input('states', 'float32', ['rows', vocabularySize]);
    graph.input('inverse_temperature', 'float32', ['rows', 1]);
    outputChoices(graph, graph.op('Mul', ['states', 'inverse_temperature']), vocabularySize);
    const session = await runtime.session(graph.finish());
    const feeds = new DrawFeeds(runtime, vocabularySize);

    const choose = async (logits: Float32Array, draws: readonly (Draw | null)[]) => {
      const states = runtime.float(logits, [draws.length, vocabularySize]);
      const outputs = await session.run({ states, ...feeds.feeds(draws) });
      return { drawn: feeds.read(draws, outputs), whole: outputs.logits?.data as Float32Array };
    };

    /** The legal tokens' log-probabilities, in 64 bits. */
    const logprobsOf = (logits: Float32Array, { legal, temperature }: Draw) => {
      const scaled = Array.from(legal, (token) => (logits[token] as number) / (temperature || 1));
      const largest = Math.max(...scaled);
      const total = scaled.reduce((sum, value) => sum + Math.exp(value - largest), 0);
      return scaled.map((value) => value - largest - Math.log(total));
    };

    const check = (logits: Float32Array, draw: Draw, drawn: Drawn) => {
      const logprobs = logprobsOf(logits, draw);
      const at = draw.legal.indexOf(drawn.token);
      expect(at).toBeGreaterThanOrEqual(0);
      expect(Math.abs(drawn.logprob - (logprobs[at] as number))).toBeLessThan(5e-5);
      const order = [...draw.legal.keys()].sort((a, b) => (logprobs[b] as number) - (logprobs[a] as number));
      const expected = order.slice(0, draw.top).map((index) => logprobs[index] as number);
      expect(drawn.top).toHaveLength(expected.length);
      for (const [rank, { token, logprob }] of drawn.top.entries()) {
        expect(Math.abs(logprob - (expected[rank] as number))).toBeLessThan(5e-5);
        expect(Math.abs(logprob - (logprobs[draw.legal.indexOf(token)] as number))).toBeLessThan(5e-5);
      }
      if (draw.temperature === 0)
        return expect(drawn.logprob).toBeGreaterThan((logprobs[order[0] as number] as number) - 5e-5);
      // The token is the one at whose end the cumulative distribution passes the number that chose it.
      const before = logprobs.slice(0, at).reduce((sum, logprob) => sum + Math.exp(logprob), 0);
      expect(draw.uniform).toBeGreaterThan(before - 1e-5);
      expect(draw.uniform).toBeLessThan(before + Math.exp(logprobs[at] as number) + 1e-5);
    };

    const ids = Array.from({ length: vocabularySize }, (_, id) => id);
    const drawArbitrary = fc.record({
      legal: fc
        .integer({ min: 1, max: 5 })
        .map((every) => Int32Array.from(ids.filter((id) => (id * 7) % every === 0))),
      temperature: fc.constantFrom(0, 0.3, 1, 2.5),
      uniform: fc.oneof(
        fc.constantFrom(0, 1 - 2 ** -32),
        fc.double({ min: 0, max: 1 - 2 ** -32, noNaN: true }),
      ),
      top: fc.constantFrom(0, 0, 1, 5),
    });
    const rowArbitrary = fc.record({
      logits: fc.integer().map((seed) => {
        const random = new Random(seed);
        return Float32Array.from(ids, () => 4 * random.normal());
      }),
      draw: fc.option(drawArbitrary, { freq: 5 }),
    });

    it('follow the softmax of the legal logits, beside rows whose logits are needed', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(rowArbitrary, { minLength: 1, maxLength: 5 }), async (rows) => {
          const logits = rows.map((row) => row.logits);
          const { drawn, whole } = await choose(
            Float32Array.from(logits.flatMap((row) => [...row])),
            rows.map(({ draw }) => draw),
          );
          let next = 0;
          for (const [row, { draw }] of rows.entries())
            if (draw) check(logits[row] as Float32Array, draw, drawn[row] as Drawn);
            else {
              expect(drawn[row]).toBeNull();
              expect(whole.slice(next, next + vocabularySize)).toEqual(logits[row]);
              next += vocabularySize;
            }
          expect(whole).toHaveLength(next);
        }),
        { numRuns: 40, seed: 7 },
      );
    });

    it('are the lowest of equal ones at temperature 0, and have no probability when the logits are NaN', async () => {
      const legal = Int32Array.from(ids.slice(vocabularySize >> 1));
      const draw = { legal, temperature: 0, uniform: 0, top: 0 };
      const equal = await choose(new Float32Array(vocabularySize).fill(3), [draw]);
      expect(equal.drawn[0]?.token).toBe(legal[0]);
      expect(equal.drawn[0]?.logprob).toBeCloseTo(-Math.log(legal.length), 5);
      for (const temperature of [0, 1]) {
        const { drawn } = await choose(new Float32Array(vocabularySize).fill(Number.NaN), [
          { ...draw, temperature },
        ]);
        expect(drawn[0]?.logprob).toBeNaN();
      }
    });
  });
});
