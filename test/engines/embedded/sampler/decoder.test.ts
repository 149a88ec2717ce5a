import { afterAll, describe, expect, it } from 'vitest';
import { readAdapter } from '../../../../src/engines/embedded/checkpoint/adapter.ts';
import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { adapterVector } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { loadRuntime, type Runtime } from '../../../../src/engines/embedded/runtime.ts';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import { blockLength } from '../../../../src/engines/embedded/sampler/prefix-cache.ts';
import { copyRow } from '../../../../src/engines/embedded/sampling/distribution.ts';
import { fixtureFolder, fixtureNames, type ReferenceTensor, readReference } from '../checkpoint/reference.ts';

const cpu = await loadRuntime('auto', 1);
/** The graphs that WebGPU runs, on the CPU. */
const inPlace: Runtime = { ...cpu, device: 'webgpu' };

const cases = fixtureNames.flatMap((name) => [
  { name, weights: 'packed', runtime: cpu, attention: 'padded' as const },
  { name, weights: 'in place', runtime: inPlace, attention: 'padded' as const },
  // The kernels do not have what the others do.
  ...(['llama', 'qwen2', 'qwen3'].includes(name)
    ? [{ name, weights: 'packed', runtime: cpu, attention: 'flat' as const }]
    : []),
]);

describe.each(cases)(
  'the decoder of the checkpoint $name with weights $weights and $attention attention',
  async ({ name, runtime, attention }) => {
    const checkpoint = await readCheckpoint(fixtureFolder(name));
    const lora = await readAdapter(`${fixtureFolder(name)}/adapter`, checkpoint.architecture);
    const adapter = { lora, vector: adapterVector(checkpoint.architecture, lora) };
    const { vocabularySize } = checkpoint.architecture;
    const { tensors } = await readReference(name);
    const reference = (tensor: string) => tensors.get(tensor) as ReferenceTensor;
    const [, time] = reference('tokens').shape as [number, number];
    const sequences = [0, 1, 2].map((row) => {
      const at = (tensor: string, index: number) => Number(reference(tensor).data[row * time + index]);
      const length = Array.from({ length: time }, (_, index) => at('mask', index)).filter(Boolean).length;
      return Array.from({ length }, (_, index) => at('tokens', index));
    });
    const decoders = {
      logits: await Decoder.create(runtime, checkpoint, null, attention),
      'adapter.logits': await Decoder.create(runtime, checkpoint, adapter, attention),
    };
    afterAll(async () => {
      for (const decoder of Object.values(decoders)) await decoder.close();
    });

    it('goes on from a copy of a slot, cut off anywhere, and from blocks of it, as from the slot itself', async () => {
      const decoder = decoders['adapter.logits'];
      const tokens = Array.from({ length: 2 * blockLength + 9 }, (_, at) => (at * 37 + 11) % vocabularySize);
      const other = tokens.toReversed();
      decoder.cache.clear();
      decoder.cache.reserve(2, tokens.length, 0);
      const whole = (sequence: readonly number[], start = 0) => ({
        tokens: sequence,
        start,
        end: sequence.length,
      });
      const expected = copyRow(await decoder.run(0, [whole(tokens)]), 0);
      for (let length = 0; length < tokens.length; length += 3) {
        // What the slot had before, which must not count.
        await decoder.run(1, [whole(other)]);
        decoder.cache.copySlot(0, 1, length);
        expect(copyRow(await decoder.run(1, [whole(tokens, length)]), 0)).toEqual(expected);
      }
      await decoder.run(1, [whole(other)]);
      for (const start of [0, blockLength]) {
        const block = new Float32Array(decoder.cache.blockSize);
        decoder.cache.copyBlock(0, start, block, 'into');
        decoder.cache.copyBlock(1, start, block, 'from');
      }
      expect(copyRow(await decoder.run(1, [whole(tokens, 2 * blockLength)]), 0)).toEqual(expected);
    });

    describe.each(Object.keys(decoders) as (keyof typeof decoders)[])('%s', (kind) => {
      const decoder = decoders[kind];
      const worstOf = (row: number, position: number, logits: Float32Array) => {
        const expected = reference(kind).data as Float32Array;
        const offset = (row * time + position) * vocabularySize;
        return logits.reduce(
          (worst, value, token) => Math.max(worst, Math.abs(value - (expected[offset + token] as number))),
          0,
        );
      };

      it('gives the logits of transformers after every token of a ragged batch', async () => {
        decoder.cache.clear();
        decoder.cache.reserve(3, time, 0);
        const chunks = sequences.map((tokens) => ({ tokens, start: 0, end: tokens.length }));
        const { logits } = await decoder.run(0, chunks, { everyToken: true });
        let offset = 0;
        for (const [row, { length }] of sequences.entries())
          for (let position = 0; position < length; position++, offset += vocabularySize)
            expect(worstOf(row, position, logits.subarray(offset, offset + vocabularySize))).toBeLessThan(
              1e-5,
            );
      });

      it('gives them token by token, from a cache that grows, alone and in a batch', async () => {
        decoder.cache.clear();
        const done = sequences.map(() => 0);
        for (const [first, last, end] of [
          [0, 0, 1],
          [0, 0, 2],
          [0, 2, 4],
          [1, 2, 5],
          [0, 1, 7],
          [0, 0, 12],
        ] as const) {
          decoder.cache.reserve(3, end, 3);
          const rows = sequences.slice(first, last + 1);
          const chunks = rows.map((tokens, at) => ({ tokens, start: done[first + at] as number, end }));
          const { logits } = await decoder.run(first, chunks);
          for (const at of rows.keys()) {
            done[first + at] = end;
            const own = logits.subarray(at * vocabularySize, (at + 1) * vocabularySize);
            expect(worstOf(first + at, end - 1, own)).toBeLessThan(1e-5);
          }
        }
      });
    });
  },
);
