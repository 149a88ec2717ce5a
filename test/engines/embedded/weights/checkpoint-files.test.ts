import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { builtInModels } from '../../../../src/engines/embedded/base-models.ts';
import { initializeWeights } from '../../../../src/engines/embedded/initial-weights.ts';
import { trainedShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { fullyTrained, vectorLength } from '../../../../src/engines/embedded/weights/architecture.ts';
import {
  readOptimizer,
  readWeights,
  writeCheckpoint,
} from '../../../../src/engines/embedded/weights/checkpoint-files.ts';
import { sharedFolder } from '../../../support/files.ts';

const architecture = fullyTrained({
  vocabularySize: 32,
  width: 8,
  layers: 1,
  heads: 2,
  contextLength: 16,
  previousTokens: 1,
});
const shapes = trainedShapes(architecture, 'all');
const size = vectorLength(shapes);
/** All weights of a seed, flat. */
function vectorOf(seed: number): Float32Array {
  const vector = new Float32Array(size);
  const weights = initializeWeights(architecture, seed);
  for (const { name, offset } of shapes) vector.set(weights.get(name) as Float32Array, offset);
  return vector;
}
const optimizer = {
  first: new Float32Array(size).fill(0.25),
  second: new Float32Array(size).fill(0.5),
  updates: 7,
};

describe('weights', () => {
  const folder = sharedFolder();

  it('of a base model depend only on its seed, and there are at least two sizes', () => {
    expect(initializeWeights(architecture, 1)).toEqual(initializeWeights(architecture, 1));
    expect(initializeWeights(architecture, 1)).not.toEqual(initializeWeights(architecture, 2));
    expect(new Set(builtInModels.map(({ parameters }) => parameters)).size).toBeGreaterThanOrEqual(2);
  });

  it('and the optimizer are read back from a checkpoint unchanged', async () => {
    const weights = vectorOf(3);
    const checkpoint = join(folder, 'whole');
    await writeCheckpoint(checkpoint, shapes, weights, optimizer);
    expect(await readWeights(checkpoint, shapes)).toEqual(weights);
    expect(await readOptimizer(checkpoint, shapes)).toEqual(optimizer);
    expect(await readdir(folder)).toEqual(['whole']);
  });

  it('are in a file whose header has the position of each tensor', async () => {
    const checkpoint = join(folder, 'read');
    const weights = vectorOf(3);
    await writeCheckpoint(checkpoint, shapes, weights, optimizer);
    const file = await readFile(join(checkpoint, 'model.safetensors'));
    const length = Number(file.readBigUInt64LE(0));
    const header = JSON.parse(file.subarray(8, 8 + length).toString());
    const head = shapes.find(({ name }) => name === 'lm_head.weight');
    expect(header['lm_head.weight'].shape).toEqual([32, 8]);
    expect(file.readFloatLE(8 + length + header['lm_head.weight'].data_offsets[0])).toBe(
      weights[head?.offset ?? -1],
    );
  });

  it('that are cut off or of another shape are refused by name', async () => {
    const checkpoint = join(folder, 'broken');
    await writeCheckpoint(checkpoint, shapes, vectorOf(3), optimizer);
    const path = join(checkpoint, 'model.safetensors');
    await expect(
      readWeights(checkpoint, trainedShapes({ ...architecture, width: 16 }, 'all')),
    ).rejects.toThrow(
      /model\.safetensors has no float32 tensor model\.embed_tokens\.weight of shape \[32,16\]/,
    );
    await writeFile(path, (await readFile(path)).subarray(0, -4));
    await expect(readWeights(checkpoint, shapes)).rejects.toThrow(/cut off in tensor lm_head\.weight/);
    await writeFile(path, 'not a checkpoint');
    await expect(readWeights(checkpoint, shapes)).rejects.toThrow(/safetensors/);
  });

  it('that cannot be written leave no files', async () => {
    const blocked = join(folder, 'blocked');
    await writeCheckpoint(blocked, shapes, vectorOf(3), optimizer);
    await expect(writeCheckpoint(blocked, shapes, vectorOf(4), optimizer)).rejects.toThrow();
    expect(await readWeights(blocked, shapes)).toEqual(vectorOf(3));
    expect((await readdir(folder)).filter((name) => name.includes('unfinished'))).toEqual([]);
  });
});
