import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../src/contract/index.ts';
import {
  type Adapter,
  adapterTensors,
  encodeAdapterHeader,
} from '../../../src/engines/embedded/checkpoint/adapter.ts';
import { readConfig } from '../../../src/engines/embedded/checkpoint/config.ts';
import { writeMerged } from '../../../src/engines/embedded/checkpoint/merge.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { Random } from '../../../src/engines/embedded/random.ts';
import { adapterShapes, adapterVector } from '../../../src/engines/embedded/runner/adapter-vector.ts';
import type { Architecture } from '../../../src/engines/embedded/weights/architecture.ts';
import { readWeights } from '../../../src/engines/embedded/weights/checkpoint-files.ts';
import type { Engine, GenerateRequest } from '../../../src/engines/engine.ts';
import { plainSampling, resolveRlConfig } from '../../../src/learning/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { writeAdapter } from './checkpoint/adapter-folder.ts';
import { generateCheckpoint } from './checkpoint/generated.ts';
import { datumOf } from './support.ts';

const parent = sharedFolder();
const lora = { rank: 3, alpha: 5, targets: ['v_proj', 'down_proj'] } as const;
let folder: string;
let adapterFolder: string;
let architecture: Architecture;
let adapter: Adapter;
let engine: Engine;

beforeAll(async () => {
  folder = await generateCheckpoint(parent, 'qwen3');
  ({ architecture } = readConfig(folder));
  const random = new Random(5);
  const tensors = adapterTensors(architecture, lora).map(({ name, dimensions }) => {
    const size = dimensions.reduce((product, dimension) => product * dimension, 1);
    return [name, Float32Array.from({ length: size }, () => 0.2 * random.normal())] as const;
  });
  adapter = { ...lora, tensors: new Map(tensors) };
  adapterFolder = join(parent, 'adapter');
  await writeAdapter(adapterFolder, { adapter, architecture, baseModel: 'x' });
  const merged = join(parent, 'merged');
  await writeMerged(folder, adapter, merged);
  engine = await createEmbeddedEngine({
    threads: 1,
    checkpoints: [
      { folder, id: 'plain' },
      { folder, id: 'begun', adapter: adapterFolder },
      { folder: merged, id: 'merged' },
    ],
  });
});
afterAll(() => engine?.close());

const begun = { baseModel: 'begun', folder: null };

async function scores(baseModel: string, at: string | null = null): Promise<number[]> {
  const prompt = engine.tokenizer(baseModel).encode('Where is order 4821, and when does it come to me?');
  const scored = await engine.scorePrompt({ weights: { baseModel, folder: at }, prompt, top: 0 });
  return scored.slice(1).map((token) => token?.logprob as number);
}

const largestDifference = (one: readonly number[], other: readonly number[]) =>
  Math.max(...one.map((value, index) => Math.abs(value - (other[index] as number))));

describe('a checkpoint with an adapter as its start', () => {
  it('samples as the checkpoint with the adapter merged into it', async () => {
    expect(largestDifference(await scores('begun'), await scores('merged'))).toBeLessThan(1e-4);
    expect(largestDifference(await scores('begun'), await scores('plain'))).toBeGreaterThan(0.1);
  });

  it('trains on from the adapter, whose settings it keeps; it is the reference of the KL penalty', async () => {
    const asked: GenerateRequest = {
      ...{ weights: begun, prompt: engine.tokenizer('begun').encode('hello'), sampling: plainSampling },
      ...{ seed: 1, maxTokens: 12, stopStrings: [], stopTokens: [], constraint: null },
      ...{ topLogprobs: 0, priority: 0, cacheSalt: null },
    };
    const reply = await engine.generate(asked);
    const config = rlConfigSchema.parse({ kl_penalty_coef: 0.1 });
    const { loss } = resolveRlConfig(config, { learningRate: 1 });
    const metrics: Record<string, number>[] = [];
    const trained = join(parent, 'trained');
    const learningRate = 1e-3;
    await engine.train({
      from: begun,
      folder: trained,
      batches: [{ datums: [datumOf(asked, reply, 1)], loss, reference: begun, learningRate }],
      onStep: (step) => metrics.push(step),
    });
    expect(Math.abs(metrics[0]?.kl_policy_ref as number)).toBeLessThan(1e-5);
    const vector = await readWeights(trained, adapterShapes(architecture, lora));
    const start = adapterVector(architecture, adapter);
    // Adam's first step is as long as the learning rate.
    const moved = largestDifference([...vector], [...start]);
    expect(moved).toBeGreaterThan(learningRate / 2);
    expect(moved).toBeLessThan(learningRate * 1.01);
    // The base model stays as it began.
    expect(largestDifference(await scores('begun'), await scores('merged'))).toBeLessThan(1e-4);
    expect(largestDifference(await scores('begun', trained), await scores('merged'))).toBeGreaterThan(1e-4);
  });
});

describe('an adapter as a start is refused', () => {
  const refusal = (options: { lora?: { rank?: number; alpha?: number }; adapter: string }) =>
    createEmbeddedEngine({ checkpoints: [{ folder, ...options }] }).then(
      () => expect.unreachable(),
      (error: unknown) => error,
    );

  it('with other settings than its own, which the options name', async () => {
    expect(await refusal({ adapter: adapterFolder, lora: { rank: 8 } })).toMatchObject({
      code: 'bad_option',
      message: expect.stringContaining(
        `\`lora.rank\` is 8, but the adapter in ${adapterFolder} has 3. Leave it out.`,
      ),
    });
    expect(await refusal({ adapter: adapterFolder, lora: { rank: 3, alpha: 6 } })).toMatchObject({
      message: expect.stringContaining('`lora.alpha` is 6, but the adapter in'),
    });
  });

  it('of another kind than plain LoRA, or of other base weights', async () => {
    const other = join(parent, 'other');
    await mkdir(other);
    const config = JSON.parse(await readFile(join(adapterFolder, 'adapter_config.json'), 'utf8'));
    const tensors = await readFile(join(adapterFolder, 'adapter_model.safetensors'));
    const write = (fields: object) =>
      writeFile(join(other, 'adapter_config.json'), JSON.stringify({ ...config, ...fields }));
    await writeFile(join(other, 'adapter_model.safetensors'), tensors);
    for (const field of ['use_rslora', 'use_dora']) {
      await write({ [field]: true });
      expect(await refusal({ adapter: other })).toMatchObject({
        code: 'checkpoint_unsupported',
        message: expect.stringContaining(`${field} is true`),
      });
    }
    await write({});
    const shapes = adapterTensors(architecture, lora);
    const data = tensors.subarray(encodeAdapterHeader(shapes).length);
    const named = Buffer.concat([encodeAdapterHeader(shapes, 'sha256-0'), data]);
    await writeFile(join(other, 'adapter_model.safetensors'), named);
    expect(await refusal({ adapter: other })).toMatchObject({
      code: 'bad_option',
      message: expect.stringContaining('was trained on weights that differ from'),
    });
  });
});
