import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { trainedShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { BatchGraphs } from '../../../../src/engines/embedded/runner/batch-runner.ts';
import { loadRuntime, type Runtime } from '../../../../src/engines/embedded/runtime.ts';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import { copyRow, type LogitRows } from '../../../../src/engines/embedded/sampling/distribution.ts';
import { fullyTrained, vectorLength } from '../../../../src/engines/embedded/weights/architecture.ts';
import { modelOf } from './support.ts';

const vocabularySize = 512;

describe.each([
  { name: 'onnxruntime-node', width: 128, layers: 2, heads: 4 },
  { name: 'onnxruntime-web', width: 128, layers: 2, heads: 4 },
  // Counts of rows of which groups of 4 leave a rest.
  { name: 'onnxruntime-node', width: 96, layers: 2, heads: 6 },
  { name: 'onnxruntime-web', width: 48, layers: 3, heads: 3 },
] as const)('the decoder on $name of $heads heads and width $width', ({ name, ...sizes }) => {
  const architecture = fullyTrained({ vocabularySize, ...sizes, contextLength: 320, previousTokens: 2 });
  const random = new Random(11);
  const weights = Float32Array.from(
    { length: vectorLength(trainedShapes(architecture, 'all')) },
    () => 0.08 * random.normal(),
  );
  const lengths = [1, 2, 5, 40, 41, 63, 64, 65, 90, 130, 300];
  const sequences = lengths.map((length) =>
    Array.from({ length }, () => Math.floor(random.uniform() * vocabularySize)),
  );
  let runtime: Runtime;
  let decoder: Decoder;
  /** Logits after each token of each sequence, computed alone and token by token. */
  const alone: LogitRows[][] = [];

  beforeAll(async () => {
    runtime = await loadRuntime(name, 1);
    decoder = await Decoder.create(runtime, modelOf(architecture, weights), null);
    for (const tokens of sequences) {
      decoder.cache.clear();
      decoder.cache.reserve(1, tokens.length, 0);
      const rows: LogitRows[] = [];
      for (let at = 0; at < tokens.length; at++)
        rows.push(copyRow(await decoder.run(0, [{ tokens, start: at, end: at + 1 }]), 0));
      alone.push(rows);
    }
  });

  it('gives the same bits for a sequence in a ragged batch and in chunks as alone and token by token', async () => {
    decoder.cache.clear();
    decoder.cache.reserve(sequences.length, 310, 0);
    const done = sequences.map(() => 0);
    while (done.some((length, row) => length < (lengths[row] as number))) {
      const chunks = sequences.map((tokens, row) => {
        const start = done[row] as number;
        return { tokens, start, end: Math.min(tokens.length, start + Math.floor(random.uniform() * 17)) };
      });
      if (chunks.every(({ start, end }) => start === end)) continue;
      const rows = await decoder.run(0, chunks);
      let at = 0;
      chunks.forEach(({ start, end }, row) => {
        done[row] = end;
        if (end > start) expect(copyRow(rows, at++)).toEqual(alone[row]?.[end - 1]);
      });
    }
  });

  it('gives the same bits in any batch, in chunks of any length, at any width of the cache', async () => {
    const runs = fc.record({
      rows: fc.shuffledSubarray([...sequences.keys()], { minLength: 1 }),
      chunkLengths: fc.infiniteStream(fc.oneof(fc.constant(1), fc.nat(5), fc.nat(70), fc.constant(400))),
      spareWidth: fc.nat(100),
    });
    await fc.assert(
      fc.asyncProperty(runs, async ({ rows, chunkLengths, spareWidth }) => {
        decoder.cache.clear();
        const done = rows.map(() => 0);
        const left = () => rows.some((row, slot) => (done[slot] as number) < (lengths[row] as number));
        for (let run = 0; run < 40 && left(); run++) {
          const chunks = rows.map((row, slot) => {
            const tokens = sequences[row] as number[];
            const start = done[slot] as number;
            return { tokens, start, end: Math.min(tokens.length, start + chunkLengths.next().value) };
          });
          if (chunks.every(({ start, end }) => start === end)) continue;
          const longest = Math.max(...chunks.map(({ end }) => end));
          decoder.cache.reserve(rows.length, longest + spareWidth, rows.length);
          const outputs = await decoder.run(0, chunks);
          let at = 0;
          for (const [slot, { start, end }] of chunks.entries()) {
            done[slot] = end;
            if (end > start) expect(copyRow(outputs, at++)).toEqual(alone[rows[slot] as number]?.[end - 1]);
          }
        }
      }),
      { numRuns: 15, seed: 5 },
    );
  });

  it('gives the same bits from a prefix of another slot or of a cached block', async () => {
    const tokens = sequences[8] as number[];
    decoder.cache.clear();
    decoder.cache.reserve(3, 70, 0);
    await decoder.run(0, [{ tokens, start: 0, end: 60 }]);
    decoder.cache.copySlot(0, 1, 50);
    for (const start of [0, 16]) {
      const block = new Float32Array(decoder.cache.blockSize);
      decoder.cache.copyBlock(0, start, block, 'into');
      decoder.cache.copyBlock(2, start, block, 'from');
    }
    decoder.cache.reserve(3, 90, 3);
    const copied = copyRow(await decoder.run(1, [{ tokens, start: 50, end: 90 }]), 0);
    const restored = copyRow(await decoder.run(2, [{ tokens, start: 32, end: 90 }]), 0);
    expect(copied).toEqual(alone[8]?.[89]);
    expect(restored).toEqual(alone[8]?.[89]);
  });

  it('gives the same bits after its cache has grown, while other sequences come and go', async () => {
    decoder.cache.clear();
    const done = [0, 0];
    for (const { slots, end } of [
      { slots: 2, end: 20 },
      { slots: 2, end: 60 },
      { slots: 40, end: 90 },
      { slots: 1, end: 61 },
      { slots: 1, end: 80 },
    ]) {
      decoder.cache.reserve(slots, end, slots);
      const chunks = [8, 9].slice(0, slots).map((index, slot) => {
        const tokens = sequences[index] as number[];
        const start = done[slot] as number;
        return { tokens, start, end: slot === 0 && end === 90 ? start : end };
      });
      const rows = await decoder.run(0, chunks);
      let at = 0;
      for (const [slot, chunk] of chunks.entries()) {
        done[slot] = chunk.end;
        if (chunk.end > chunk.start) expect(copyRow(rows, at++)).toEqual(alone[8 + slot]?.[chunk.end - 1]);
      }
    }
  });

  it('gives the same bits after the memory of many long sequences was given back', async () => {
    const tokens = sequences[10] as number[];
    for (let round = 0; round < 2; round++) {
      decoder.cache.reserve(120, 300, 0);
      const rows = await decoder.run(119, [{ tokens, start: 0, end: 300 }]);
      expect(copyRow(rows, 0)).toEqual(alone[10]?.[299]);
      decoder.cache.clear();
    }
  });

  it('gives the same bits in the memory of a cache whose keys and values were NaN', async () => {
    const diverged = await Decoder.create(
      runtime,
      modelOf(
        architecture,
        weights.map(() => Number.NaN),
      ),
      null,
    );
    decoder.cache.clear();
    diverged.cache.reserve(1, 320, 0);
    const tokens = sequences[9] as number[];
    await diverged.run(0, [{ tokens: sequences[10] as number[], start: 0, end: 300 }]);
    await diverged.close();
    decoder.cache.reserve(1, tokens.length, 0);
    const next = await Decoder.create(runtime, modelOf(architecture, weights), null);
    next.cache.reserve(1, tokens.length, 0);
    for (const own of [decoder, next]) {
      const rows = await own.run(0, [{ tokens, start: 0, end: 90 }]);
      expect(copyRow(rows, 0)).toEqual(alone[9]?.[89]);
    }
    await next.close();
  });

  it('computes one sequence of two thousand, while the others wait', async () => {
    const tokens = sequences[4] as number[];
    decoder.cache.reserve(2000, 63, 0);
    const chunks = Array.from({ length: 2000 }, (_, slot) => ({
      tokens,
      start: 0,
      end: slot === 1990 ? 40 : 0,
    }));
    const rows = await decoder.run(0, chunks);
    expect(copyRow(rows, 0)).toEqual(alone[4]?.[39]);
    decoder.cache.clear();
  });

  it('returns the logits after every token of a chunk, with a separate cache', async () => {
    const tokens = sequences[7] as number[];
    const own = sequences[8] as number[];
    const twin = decoder.twin();
    decoder.cache.reserve(1, own.length, 0);
    await decoder.run(0, [{ tokens: own, start: 0, end: 40 }]);
    twin.cache.reserve(1, tokens.length, 0);
    for (const [start, end] of [
      [0, 1],
      [1, 40],
      [40, 65],
    ] as const) {
      const rows = await twin.run(0, [{ tokens, start, end }], { everyToken: true });
      for (let at = start; at < end; at++) expect(copyRow(rows, at - start)).toEqual(alone[7]?.[at]);
    }
    const rows = await decoder.run(0, [{ tokens: own, start: 40, end: 90 }]);
    expect(copyRow(rows, 0)).toEqual(alone[8]?.[89]);
    // What the separate cache holds stays when the memory of the other is given back.
    decoder.cache.reserve(120, 320, 0);
    decoder.cache.clear();
    const next = copyRow(await twin.run(0, [{ tokens: [...tokens, 7], start: 65, end: 66 }]), 0);
    decoder.cache.reserve(1, 66, 0);
    const same = await decoder.run(0, [{ tokens: [...tokens, 7], start: 0, end: 66 }]);
    expect(copyRow(same, 0)).toEqual(next);
  });

  it('agrees with the forward pass of training to 1e-5', async () => {
    const graphs = await BatchGraphs.create(runtime, modelOf(architecture, weights), 'all');
    const nothing = new Int32Array();
    const softmax = { states: nothing, tokens: nothing, temperatures: new Float32Array(), legal: () => null };
    for (const [index, tokens] of sequences.entries()) {
      const others = Int32Array.from(tokens.keys());
      const batch = { sequences: [tokens], time: tokens.length };
      const run = { tokens: batch, vector: null, keptLayers: 0, softmax, others };
      await graphs.forward(index, run, new AbortController().signal);
      const { logits } = await graphs.logits(index, others);
      graphs.end(index);
      const worst = logits.reduce((largest, value, at) => {
        const own = alone[index]?.[Math.floor(at / vocabularySize)]?.logits[at % vocabularySize] as number;
        return Math.max(largest, Math.abs(value - own));
      }, 0);
      expect(worst).toBeLessThan(1e-5);
    }
    await graphs.release();
  });
});
