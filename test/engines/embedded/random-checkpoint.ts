import { join } from 'node:path';
import { BaseModels } from '../../../src/engines/embedded/base-models.ts';
import { Random } from '../../../src/engines/embedded/random.ts';
import { trainedShapes } from '../../../src/engines/embedded/runner/adapter-vector.ts';
import { vectorLength } from '../../../src/engines/embedded/weights/architecture.ts';
import { writeCheckpoint } from '../../../src/engines/embedded/weights/checkpoint-files.ts';
import type { Weights } from '../../../src/engines/engine.ts';

/** A checkpoint in which all layers matter, unlike in an untrained base model. */
export async function randomCheckpoint(folder: string, baseModel: string): Promise<Weights> {
  const { architecture } = new BaseModels([]).find(baseModel);
  const random = new Random(23);
  const shapes = trainedShapes(architecture, 'all');
  const size = vectorLength(shapes);
  const weights = Float32Array.from({ length: size }, () => 0.12 * random.normal());
  const moments = { first: new Float32Array(size), second: new Float32Array(size), updates: 0 };
  const target = join(folder, 'random');
  await writeCheckpoint(target, shapes, weights, moments);
  return { baseModel, folder: target };
}
