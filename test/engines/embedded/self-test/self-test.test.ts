import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { projections } from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import { createEmbeddedEngine } from '../../../../src/engines/embedded/index.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { adapterShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { type ExactLoss, runExactly } from '../../../../src/engines/embedded/self-test/exact-model.ts';
import { randomModel } from '../../../../src/engines/embedded/self-test/random-model.ts';
import { selfTest } from '../../../../src/engines/embedded/self-test/self-test.ts';
import { temporaryFolder } from '../../../support/files.ts';
import { generateCheckpoint } from '../checkpoint/generated.ts';
import { fixtureFolder, fixtureNames } from '../checkpoint/reference.ts';
import { faultyRuntime } from './faulty-runtime.ts';

const runtime = await loadRuntime('auto', 1);
const lora = { rank: 4, alpha: 8, targets: projections };
const checkpoint = await readCheckpoint(fixtureFolder('qwen3'));
/** With the context that is published, whose attention the graph computes. */
const architecture = { ...checkpoint.architecture, contextLength: 40_960 };
const model = { id: 'Qwen3', lora, ...checkpoint, architecture };

describe('the self-test of a checkpoint', () => {
  it.each(fixtureNames)('passes for %s', async (name) => {
    const own = await readCheckpoint(fixtureFolder(name));
    await selfTest(runtime, { id: name, lora, ...own });
    await selfTest(runtime, { id: name, lora: { ...lora, targets: ['q_proj', 'down_proj'] }, ...own });
  });

  it.each([
    ['QuickGelu', 'sampling: logits of a prompt'],
    ['RotaryEmbedding', 'sampling: logits of a prompt'],
    ['TopK', 'sampling: log-probabilities of tokens that the graph chose'],
    ['Sigmoid', 'training: states'],
    ['Log', 'training: log-probabilities'],
    ['Neg', 'training: gradient of model.layers.0.self_attn.q_proj'],
  ])('refuses a runtime whose %s is wrong by a thousandth, and says where', async (operator, part) => {
    const tested = selfTest(faultyRuntime(runtime, { operator, factor: 1.001 }), model);
    await expect(tested).rejects.toMatchObject({
      code: 'self_test_failed',
      message: expect.stringContaining(`Qwen3 was refused, because ${runtime.name} computes it wrongly`),
    });
    await expect(tested).rejects.toThrow(part);
  });

  it('ends between two parts when its signal aborts', async () => {
    await expect(selfTest(runtime, model, AbortSignal.abort('enough'))).rejects.toBe('enough');
  });

  it('tests a layer of attention and a convolution, wherever they are', async () => {
    const lfm2 = await readCheckpoint(fixtureFolder('lfm2'));
    const convolutions = { layers: [true, true, true, false], taps: 3 };
    const own = randomModel('LFM2', { ...lfm2.architecture, layers: 4, convolutions }, lora);
    await selfTest(runtime, own);
    for (const operator of ['RotaryEmbedding', 'Split'])
      await expect(selfTest(faultyRuntime(runtime, { operator, factor: 1.001 }), own)).rejects.toMatchObject({
        code: 'self_test_failed',
      });
  });

  it('refuses a runtime that gives no numbers, or cannot run a graph', async () => {
    await expect(
      selfTest(faultyRuntime(runtime, { operator: 'Softmax', factor: Number.NaN }), model),
    ).rejects.toThrow(/differ by NaN/);
    const broken = { ...runtime, session: () => Promise.reject(new Error('no kernel for Gather')) };
    await expect(selfTest(broken, model)).rejects.toThrow(/a graph cannot run: no kernel for Gather/);
  });

  it('blames the checkpoint, not the device, for numbers that float32 cannot compute with', async () => {
    const weights = new Map(checkpoint.weights);
    const name = 'model.layers.0.mlp.down_proj.weight';
    weights.set(
      name,
      weights.get(name)!.map((value) => value * 1e36),
    );
    const architecture = { ...checkpoint.architecture, normEpsilon: 1e-300 };
    for (const wrong of [
      { ...model, weights },
      { ...model, architecture },
    ])
      await expect(selfTest(runtime, wrong)).rejects.toMatchObject({
        code: 'bad_checkpoint',
        message: expect.stringMatching(/^Qwen3 has weights or settings that give wrong results here/),
      });
  });

  it('runs when an engine is created, and refuses weights that are not numbers', async () => {
    const folder = await generateCheckpoint(await temporaryFolder(), 'qwen2');
    const engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder }] });
    await engine.close();
    const file = join(folder, 'model.safetensors');
    const bytes = await readFile(file);
    bytes.fill(0xff, bytes.length - 200, bytes.length);
    await writeFile(file, bytes);
    await expect(createEmbeddedEngine({ threads: 1, checkpoints: [{ folder }] })).rejects.toMatchObject({
      code: 'bad_checkpoint',
      message: expect.stringMatching(/qwen2-generated: its first layers give logits that are not finite/),
    });
  });
});

it('the exact model has the gradients of its loss, by differences', () => {
  const { architecture } = checkpoint;
  const random = new Random(3);
  const tensors = adapterShapes(architecture, lora).map(
    ({ name, size }) => [name, Float32Array.from({ length: size }, () => 0.3 * random.normal())] as const,
  );
  const adapter = new Map(tensors);
  const decisions = [4, 9, 2].map((token, at) => ({
    token,
    temperature: 1 + at / 2,
    legal: at === 1 ? Int32Array.of(1, 5, 9, 12) : null,
    slope: at - 0.5,
    entropySlope: 0.4,
  }));
  const run = () =>
    runExactly(checkpoint, { lora, adapter }, [7, 3, 11]).at(-1)?.learn(decisions) as ExactLoss;
  const lossOf = ({ logprobs, entropies }: ExactLoss) =>
    decisions.reduce(
      (sum, { slope, entropySlope }, at) =>
        sum + slope * (logprobs[at] as number) + entropySlope * (entropies[at] as number),
      0,
    );
  const { gradients } = run();
  for (const [name, tensor] of adapter) {
    const gradient = gradients.get(name) as Float64Array;
    const length = Math.hypot(...gradient);
    const before = tensor.slice();
    const at = (step: number) => {
      for (const [index, value] of before.entries())
        tensor[index] = value + (step * (gradient[index] as number)) / length;
      // The steps as float32 took them.
      const moved = tensor.reduce(
        (sum, value, index) => sum + (value - (before[index] as number)) * (gradient[index] as number),
        0,
      );
      return { loss: lossOf(run()), moved };
    };
    const [up, down] = [at(1e-3), at(-1e-3)];
    tensor.set(before);
    expect((up.loss - down.loss) / (up.moved - down.moved), name).toBeCloseTo(1, 4);
  }
});
