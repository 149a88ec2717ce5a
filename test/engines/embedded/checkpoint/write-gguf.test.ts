import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type Adapter, adapterTensors } from '../../../../src/engines/embedded/checkpoint/adapter.ts';
import { readConfig } from '../../../../src/engines/embedded/checkpoint/config.ts';
import { gemma3 } from '../../../../src/engines/embedded/checkpoint/families/gemma3.ts';
import { lfm2 } from '../../../../src/engines/embedded/checkpoint/families/lfm2.ts';
import { mistral } from '../../../../src/engines/embedded/checkpoint/families/mistral.ts';
import { encodeGgufHeader } from '../../../../src/engines/embedded/checkpoint/gguf/encode-header.ts';
import { readHeader } from '../../../../src/engines/embedded/checkpoint/gguf/header.ts';
import { GgufFile } from '../../../../src/engines/embedded/checkpoint/gguf-file.ts';
import { writeMerged } from '../../../../src/engines/embedded/checkpoint/merge.ts';
import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { openSource } from '../../../../src/engines/embedded/checkpoint/source.ts';
import { projections } from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import { writeGguf, writeGgufAdapter } from '../../../../src/engines/embedded/checkpoint/write-gguf.ts';
import { inspectCheckpoint } from '../../../../src/engines/embedded/open-checkpoint.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import type { StoredTensor } from '../../../../src/engines/embedded/weights/safetensors.ts';
import { temporaryFolder } from '../../../support/files.ts';
import { generateCheckpoint } from './generated.ts';

const fixture = (name: string) => fileURLToPath(new URL(`gguf/fixtures/${name}.gguf`, import.meta.url));
const none: Adapter = { rank: 1, alpha: 1, targets: ['q_proj'], tensors: new Map() };

async function randomAdapter(path: string): Promise<Adapter> {
  const { architecture } = readConfig(await openSource(path));
  const random = new Random(3);
  const settings = { rank: 2, alpha: 4, targets: projections };
  const tensors = adapterTensors(architecture, settings).map(
    ({ name, dimensions: [rows = 0, columns = 0] }) => {
      return [name, Float32Array.from({ length: rows * columns }, () => 0.3 * random.normal())] as const;
    },
  );
  return { ...settings, tensors: new Map(tensors) };
}

async function written(path: string, adapter: Adapter, type: 'f16' | 'q8_0'): Promise<string> {
  const { source, language } = await inspectCheckpoint({ folder: path });
  const to = join(await temporaryFolder(), 'x.gguf');
  await writeGguf(source, adapter, to, { name: 'local/a/b:step3', type, format: language.format });
  return to;
}

it('a header holds as many tokens as Gemma has', async () => {
  const tokens = Array.from({ length: 262_144 }, (_, index) => `t${index}`);
  const path = join(await temporaryFolder(), 'header.gguf');
  await writeFile(
    path,
    encodeGgufHeader({ 'tokenizer.ggml.tokens': { type: 'strings', value: tokens } }, []),
  );
  const handle = await open(path);
  const { metadata } = await readHeader(path, handle);
  await handle.close();
  expect(metadata.get('tokenizer.ggml.tokens')).toEqual(tokens);
});

describe.each(['llama3', 'qwen2', 'qwen3', 'smollm2', 'gemma3', 'lfm2', 'granite', 'mistral'] as const)(
  'a %s model, written as a GGUF file',
  (family) => {
    it('is read again as it was', async () => {
      for (const base of [fixture(family), await generateCheckpoint(await temporaryFolder(), family)]) {
        const [own, other] = [
          await inspectCheckpoint({ folder: base }),
          await inspectCheckpoint({ folder: await written(base, none, 'f16') }),
        ];
        // Fields of a file are float32.
        const normEpsilon = Math.fround(own.architecture.normEpsilon);
        // In a file, gate and up are two matrices.
        const joined = {
          joinedGate: false,
          tensorNames: own.architecture.joinedGate ? 'llama' : own.architecture.tensorNames,
        };
        expect(other.architecture).toEqual({ ...own.architecture, normEpsilon, ...joined });
        const { format, tokenizer } = own.language;
        expect({ ...other.language.format, otherEndTokens: [] }).toEqual({
          ...format,
          // A file names the token that the template writes.
          variables: { ...format.variables, eos_token: tokenizer.text(format.endToken) },
          otherEndTokens: [],
        });
        const text = "Hi, 1234 wörlds — don't 中文\n\n  x\u0004";
        expect(other.language.tokenizer.encode(text)).toEqual(own.language.tokenizer.encode(text));
        expect(other.language.tokenizer.added).toEqual(own.language.tokenizer.added);
        expect(other.language.tokenizer.vocabularySize).toBe(own.language.tokenizer.vocabularySize);
      }
    });

    it('has the weights with the adapter merged in, as a folder has them', async () => {
      const adapter = await randomAdapter(fixture(family));
      const folder = join(await temporaryFolder(), 'merged');
      await writeMerged(fixture(family), adapter, folder);
      const [expected, base] = [await readCheckpoint(folder), await readCheckpoint(fixture(family))];
      for (const [type, most] of [
        ['f16', 2 ** -6],
        ['q8_0', 2 ** -5],
      ] as const) {
        const found = await readCheckpoint(await written(fixture(family), adapter, type));
        expect([...found.weights.keys()].toSorted()).toEqual([...expected.weights.keys()].toSorted());
        for (const [name, values] of found.weights) {
          const theirs = expected.weights.get(name) as Float32Array;
          const distance = (one: Float32Array, other: Float32Array) =>
            one.reduce(
              (largest, value, index) => Math.max(largest, Math.abs(value - (other[index] as number))),
              0,
            );
          expect([name, distance(values, theirs) < most], type).toEqual([name, true]);
          if (/(_proj|w[123])\.weight$/.test(name))
            expect(distance(values, base.weights.get(name) as Float32Array)).toBeGreaterThan(0.1);
        }
      }
    });
  },
);

it.each<[Record<string, unknown>, RegExp]>([
  [{ query_pre_attn_scalar: 9 }, /query_pre_attn_scalar must be 8 there\. Export with --merged instead/],
  [
    { num_hidden_layers: 5, layer_types: Array(5).fill('full_attention').fill('sliding_attention', 1, 4) },
    /there, one layer in every n must see all positions/,
  ],
])('a Gemma 3 that llama.cpp does not run is refused: %j', async (fields, message) => {
  const folder = await generateCheckpoint(await temporaryFolder(), 'gemma3');
  const path = join(folder, 'config.json');
  await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), ...fields }));
  const config = readConfig(folder);
  expect(() => gemma3.gguf.fields(config.architecture)).toThrow(message);
});

it('the matrix for gate and up of a Granite 4.0 becomes two in a file, with their adapter', async () => {
  const base = await generateCheckpoint(await temporaryFolder(), 'granite');
  const adapter = await randomAdapter(base);
  const folder = join(await temporaryFolder(), 'merged');
  await writeMerged(base, adapter, folder);
  const { weights: expected, architecture } = await readCheckpoint(folder);
  const { weights: found } = await readCheckpoint(await written(base, adapter, 'f16'));
  const to = join(await temporaryFolder(), 'adapter.gguf');
  await writeGgufAdapter(await openSource(base), adapter, to, { name: 'x' });
  const handle = await open(to);
  const { tensors } = await readHeader(to, handle);
  await handle.close();
  await using file = await GgufFile.open(to);
  const valuesOf = async (name: string) => {
    const pieces: number[] = [];
    for await (const values of file.values(tensors.get(name) as StoredTensor)) pieces.push(...values);
    return Float32Array.from(pieces);
  };
  const half = architecture.mlpWidth * architecture.width;
  for (const [index, part] of ['gate', 'up'].entries()) {
    const joined = expected.get('model.layers.1.shared_mlp.input_linear.weight') as Float32Array;
    const own = found.get(`model.layers.1.mlp.${part}_proj.weight`) as Float32Array;
    expect(own).toHaveLength(half);
    for (const [at, value] of own.entries())
      expect(Math.abs(value - (joined[index * half + at] as number))).toBeLessThan(2 ** -9);
    const tensor = (name: string) => adapter.tensors.get(`model.layers.1.shared_mlp.input_linear.${name}`);
    const theirs = `blk.1.ffn_${part}.weight.lora`;
    expect(await valuesOf(`${theirs}_a`)).toEqual(tensor('lora_A.weight'));
    const b = tensor('lora_B.weight') as Float32Array;
    expect(await valuesOf(`${theirs}_b`)).toEqual(
      b.slice((index * b.length) / 2, ((index + 1) * b.length) / 2),
    );
  }
});

it('a Mistral with windows is refused, because llama.cpp does not run them', async () => {
  const folder = await generateCheckpoint(await temporaryFolder(), 'mistral');
  const local = { layers: [true, true], window: 16, positions: { theta: 10_000, scaling: null } };
  const { architecture } = readConfig(folder);
  expect(() => mistral.gguf.fields({ ...architecture, local })).toThrow(
    /this one has sliding_window 16\. Export with --merged instead/,
  );
});

it('an LFM2 whose convolutions see one token is refused, because llama.cpp does not run it', async () => {
  const { architecture } = readConfig(await openSource(fixture('lfm2')));
  const convolutions = { layers: [true, false], taps: 1 };
  expect(() => lfm2.gguf.fields({ ...architecture, convolutions })).toThrow(
    /conv_L_cache is 1, and llama.cpp needs 2 or more\. Export with --merged instead/,
  );
});

it('numbers in Q8_0 stay the same when they are written in it again', async () => {
  const [before, after] = [fixture('llama3'), await written(fixture('llama3'), none, 'q8_0')];
  await using one = await GgufFile.open(before);
  await using other = await GgufFile.open(after);
  expect([...one.tensors.values()].filter(({ format }) => format === 'Q8_0')).toHaveLength(16);
  for (const [name, { format }] of one.tensors)
    expect([name, other.tensors.get(name)?.format]).toEqual([name, format]);
  expect((await readCheckpoint(after)).weights).toEqual((await readCheckpoint(before)).weights);
});

it('an adapter is written with its numbers, under the names of llama.cpp', async () => {
  const base = fixture('llama3');
  const adapter = await randomAdapter(base);
  const path = join(await temporaryFolder(), 'adapter.gguf');
  await writeGgufAdapter(await openSource(base), adapter, path, { name: 'local/a/b:step3' });
  await using file = await GgufFile.open(path);
  expect(Object.fromEntries(file.header.metadata)).toEqual({
    'general.architecture': 'llama',
    'general.type': 'adapter',
    'general.name': 'local/a/b:step3',
    'general.file_type': 0,
    'adapter.type': 'lora',
    'adapter.lora.alpha': 4,
  });
  expect(file.tensors.size).toBe(2 * 7 * 2);
  const valuesOf = async (name: string) => {
    const tensor = file.header.tensors.get(name);
    const found: number[] = [];
    if (tensor) for await (const values of file.values(tensor)) found.push(...values);
    return found;
  };
  expect(file.header.tensors.get('blk.1.ffn_down.weight.lora_a')?.dimensions).toEqual([2, 64]);
  expect(await valuesOf('blk.1.ffn_down.weight.lora_b')).toEqual([
    ...(adapter.tensors.get('model.layers.1.mlp.down_proj.lora_B.weight') ?? []),
  ]);
  // Rows of a head take turns, first those of its first half: 0, 4, 1, 5, 2, 6, 3, 7.
  const rows = adapter.tensors.get('model.layers.0.self_attn.q_proj.lora_B.weight') as Float32Array;
  const first = [0, 4, 1, 5, 2, 6, 3, 7].flatMap((row) => [...rows.subarray(2 * row, 2 * row + 2)]);
  expect((await valuesOf('blk.0.attn_q.weight.lora_b')).slice(0, 16)).toEqual(first);
});
