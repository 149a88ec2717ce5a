import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BaseModels } from '../../../src/engines/embedded/base-models.ts';
import { readAdapter } from '../../../src/engines/embedded/checkpoint/adapter.ts';
import { exportWeights } from '../../../src/engines/embedded/export-weights.ts';
import { adapterVector, trainedShapes } from '../../../src/engines/embedded/runner/adapter-vector.ts';
import { TrainedVector } from '../../../src/engines/embedded/trainer/trained-vector.ts';
import { writeCheckpoint } from '../../../src/engines/embedded/weights/checkpoint-files.ts';
import type { ExportedWeights, Weights } from '../../../src/engines/engine.ts';
import { decodeTar, encodeTar, type TarFile } from '../../../src/util/tar.ts';
import { sharedFolder } from '../../support/files.ts';
import { adapterOfTests, randomModel } from './checkpoint/models.ts';
import { randomCheckpoint } from './random-checkpoint.ts';
import { Bench, base, baseModel } from './support.ts';

async function read({ chunks }: ExportedWeights): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const chunk of chunks) pieces.push(chunk);
  return Buffer.concat(pieces);
}

/** A safetensors file as its format's description says it. */
function parse(file: Buffer) {
  const start = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__: metadata, ...entries } = JSON.parse(file.toString('utf8', 8, start));
  const ends: number[] = [];
  const tensors = new Map<string, { shape: number[]; values: number[] }>();
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries<{
    dtype: string;
    shape: number[];
    data_offsets: [number, number];
  }>(entries)) {
    expect(dtype).toBe('F32');
    const values: number[] = [];
    for (let at = start + offsets[0]; at < start + offsets[1]; at += 4) values.push(file.readFloatLE(at));
    tensors.set(name, { shape, values });
    ends.push(start + offsets[1]);
  }
  return { metadata, tensors, aligned: start % 8 === 0, end: Math.max(...ends) };
}

describe('exported weights', () => {
  const { architecture } = new BaseModels([]).find(baseModel);
  let bench: Bench;
  let checkpoint: Weights;

  beforeAll(async () => {
    bench = await Bench.open();
    checkpoint = await randomCheckpoint(bench.folder, baseModel);
  });

  afterAll(() => bench.close());

  it('of a checkpoint and of a base model are one safetensors file with all tensors by name', async () => {
    for (const weights of [checkpoint, base]) {
      const exported = await bench.engine.exportWeights(weights);
      expect(exported.extension).toBe('.safetensors');
      const file = await read(exported);
      expect(file.length).toBe(exported.bytes);
      const { metadata, tensors, aligned, end } = parse(file);
      expect(metadata).toEqual({
        format: 'pt',
        base_model: baseModel,
        vocabulary_size: '512',
        width: '128',
        layers: '2',
        heads: '4',
        context_length: '512',
        previous_tokens: '2',
        expansion: '4',
      });
      expect(aligned).toBe(true);
      expect(end).toBe(file.length);
      const expected = await new BaseModels([]).loadVector(weights);
      expect([...tensors.keys()].sort()).toEqual(
        trainedShapes(architecture, 'all')
          .map(({ name }) => name)
          .sort(),
      );
      for (const { name, dimensions, offset, size } of trainedShapes(architecture, 'all')) {
        expect(tensors.get(name)?.shape).toEqual(dimensions);
        expect(Float32Array.from(tensors.get(name)?.values ?? [])).toEqual(
          expected.subarray(offset, offset + size),
        );
      }
    }
  });

  it('are read in pieces, only as many as are consumed', async () => {
    const { chunks, bytes } = await bench.engine.exportWeights(checkpoint);
    const sizes: number[] = [];
    for await (const chunk of chunks) {
      sizes.push(chunk.length);
      if (sizes.length === 3) break;
    }
    expect(Math.max(...sizes)).toBeLessThan(bytes / 4);
  });

  it('of a missing or incomplete checkpoint are refused by name', async () => {
    const missing = { baseModel, folder: '/nowhere/at-all' };
    await expect(bench.engine.exportWeights(missing)).rejects.toThrow('/nowhere/at-all');
    await expect(bench.engine.exportWeights({ baseModel: 'gpt', folder: null })).rejects.toThrow(/gpt/);
    const { chunks } = await bench.engine.exportWeights(checkpoint);
    const path = join(checkpoint.folder ?? '', 'model.safetensors');
    await truncate(path, 4000);
    await expect(bench.engine.exportWeights(checkpoint)).rejects.toThrow(/model\.safetensors/);
    await rm(path);
    await expect(read({ extension: '', bytes: 0, chunks })).rejects.toThrow(checkpoint.folder ?? '');
  });
});

describe('a tar archive', () => {
  const encoded = async () => {
    const text = (value: string) => new TextEncoder().encode(value);
    const files = [
      { path: 'a/one', bytes: 700, content: [new Uint8Array(700).fill(7)] },
      { path: 'a/empty', bytes: 0, content: [] },
      { path: 'a/text', bytes: 5, content: [text('he'), text('llo')] },
    ];
    return Buffer.concat(await pieces(encodeTar(files)));
  };
  const pieces = async (content: TarFile['content']) => {
    const all: Uint8Array[] = [];
    for await (const piece of content) all.push(piece);
    return all;
  };
  async function* chunked(bytes: Buffer, size: number) {
    for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
  }
  async function decoded(archive: AsyncIterable<Uint8Array>) {
    const files: [string, number, string][] = [];
    for await (const { path, bytes, content } of decodeTar(archive))
      files.push([path, bytes, Buffer.concat(await pieces(content)).toString()]);
    return files;
  }

  it.each([1, 13, 512, 1 << 20])('is decoded from pieces of %i bytes', async (size) => {
    expect(await decoded(chunked(await encoded(), size))).toEqual([
      ['a/one', 700, '\u0007'.repeat(700)],
      ['a/empty', 0, ''],
      ['a/text', 5, 'hello'],
    ]);
  });

  it('of other programs is decoded: folders are passed over, and a header may tell a long path', async () => {
    const entry = (type: string, path: string, content: string): Buffer => {
      const block = Buffer.alloc(512 + Math.ceil(content.length / 512) * 512);
      const size = content.length.toString(8).padStart(11, '0');
      for (const [text, at] of [
        [path, 0],
        [size, 124],
        [type, 156],
        ['ustar', 257],
        [' '.repeat(8), 148],
      ] as const)
        block.write(text, at);
      const sum = block.subarray(0, 512).reduce((total, byte) => total + byte, 0);
      block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
      block.write(content, 512);
      return block;
    };
    const long = `deep/${'x'.repeat(120)}/one`;
    const records = `${long.length + 10} path=${long}\n14 note=a\nb=c\n`;
    const archive = Buffer.concat([
      entry('5', './', ''),
      entry('x', 'PaxHeader', `16 mtime=1763.5\n${records}`),
      entry('0', long.slice(0, 99), 'hello'),
      entry('0', './two', 'world'),
      Buffer.alloc(1024),
    ]);
    expect(await decoded(chunked(archive, 100))).toEqual([
      [long, 5, 'hello'],
      ['./two', 5, 'world'],
    ]);
    const link = Buffer.concat([entry('2', 'link', ''), Buffer.alloc(1024)]);
    await expect(decoded(chunked(link, 100))).rejects.toThrow('link, which is no file');
  });

  it('that is cut off or damaged is refused', async () => {
    const archive = await encoded();
    await expect(decoded(chunked(archive.subarray(0, 900), 512))).rejects.toThrow('truncated');
    archive[3] = 65;
    await expect(decoded(chunked(archive, 512))).rejects.toThrow('checksum');
  });
});

describe('an exported adapter', () => {
  const folder = sharedFolder();
  const run = promisify(execFile);

  it('is an archive that tar unpacks, of the two files of PEFT', async () => {
    const model = randomModel('Qwen3-0.0B', 4);
    const models = new BaseModels([model]);
    const shapes = models.trainedShapes(model.id);
    const initial = await models.loadVector({ baseModel: model.id, folder: null });
    const trained = initial.map((value, index) => value + Math.sin(index));
    const weights = { baseModel: model.id, folder: join(folder, 'trained') };
    await writeCheckpoint(weights.folder, shapes, trained, new TrainedVector(trained, null).optimizer);
    for (const [name, from, vector] of [
      ['base', { ...weights, folder: null }, initial],
      ['checkpoint', weights, trained],
    ] as const) {
      const exported = await exportWeights(models, from);
      expect(exported.extension).toBe('.tar');
      const archive = await read(exported);
      expect(archive.length).toBe(exported.bytes);
      const target = join(folder, name);
      await mkdir(target);
      await writeFile(join(target, 'adapter.tar'), archive);
      await run('tar', ['-xf', 'adapter.tar'], { cwd: target });
      const adapter = await readAdapter(join(target, 'adapter'), model.architecture);
      expect(adapter).toMatchObject(adapterOfTests);
      expect(Float32Array.from(adapterVector(model.architecture, adapter))).toEqual(vector);
      const config = await readFile(join(target, 'adapter', 'adapter_config.json'), 'utf8');
      expect(JSON.parse(config).base_model_name_or_path).toBe(model.id);
    }
  });
});
