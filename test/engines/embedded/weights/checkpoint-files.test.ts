import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { embeddedBaseModels } from '../../../../src/engines/embedded/base-models.ts';
import {
  fullyTrained,
  parameterCount,
  tensorShapes,
} from '../../../../src/engines/embedded/weights/architecture.ts';
import {
  readOptimizer,
  readWeights,
  writeCheckpoint,
} from '../../../../src/engines/embedded/weights/checkpoint-files.ts';
import { initializeWeights } from '../../../../src/engines/embedded/weights/initialize.ts';
import { sharedFolder } from '../../../support/files.ts';

const architecture = fullyTrained({
  vocabularySize: 32,
  width: 8,
  layers: 1,
  heads: 2,
  contextLength: 16,
  previousTokens: 1,
});
const shapes = tensorShapes(architecture);
const size = parameterCount(architecture);
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
    expect(new Set(embeddedBaseModels.map(({ parameters }) => parameters)).size).toBeGreaterThanOrEqual(2);
  });

  it('and the optimizer are read back from a checkpoint unchanged', async () => {
    const weights = initializeWeights(architecture, 3);
    const checkpoint = join(folder, 'whole');
    await writeCheckpoint(checkpoint, shapes, weights, optimizer);
    expect(await readWeights(checkpoint, shapes)).toEqual(weights);
    expect(await readOptimizer(checkpoint, shapes)).toEqual(optimizer);
    expect(await readdir(folder)).toEqual(['whole']);
  });

  it('are in a file whose header has the position of each tensor', async () => {
    const checkpoint = join(folder, 'read');
    const weights = initializeWeights(architecture, 3);
    await writeCheckpoint(checkpoint, shapes, weights, optimizer);
    const file = await readFile(join(checkpoint, 'model.safetensors'));
    const length = Number(file.readBigUInt64LE(0));
    const header = JSON.parse(file.subarray(8, 8 + length).toString());
    const head = shapes.find(({ name }) => name === 'head');
    expect(header.head.shape).toEqual([8, 32]);
    expect(file.readFloatLE(8 + length + header.head.data_offsets[0])).toBe(weights[head?.offset ?? -1]);
  });

  it('that are cut off or of another shape are refused by name', async () => {
    const checkpoint = join(folder, 'broken');
    await writeCheckpoint(checkpoint, shapes, initializeWeights(architecture, 3), optimizer);
    const path = join(checkpoint, 'model.safetensors');
    await expect(readWeights(checkpoint, tensorShapes({ ...architecture, width: 16 }))).rejects.toThrow(
      /model\.safetensors has no float32 tensor token_embedding of shape \[32,16\]/,
    );
    await writeFile(path, (await readFile(path)).subarray(0, -4));
    await expect(readWeights(checkpoint, shapes)).rejects.toThrow(/cut off in tensor head/);
    await writeFile(path, 'not a checkpoint');
    await expect(readWeights(checkpoint, shapes)).rejects.toThrow(/safetensors/);
  });

  it('that cannot be written leave no files', async () => {
    const blocked = join(folder, 'blocked');
    await writeCheckpoint(blocked, shapes, initializeWeights(architecture, 3), optimizer);
    await expect(
      writeCheckpoint(blocked, shapes, initializeWeights(architecture, 4), optimizer),
    ).rejects.toThrow();
    expect(await readWeights(blocked, shapes)).toEqual(initializeWeights(architecture, 3));
    expect((await readdir(folder)).filter((name) => name.includes('unfinished'))).toEqual([]);
  });
});
