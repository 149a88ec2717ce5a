import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { allProjections } from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import { createEmbeddedEngine, type EmbeddedEngineOptions } from '../../../../src/engines/embedded/index.ts';
import { Graph, type Value } from '../../../../src/engines/embedded/onnx/graph.ts';
import { adapterShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { readWeights } from '../../../../src/engines/embedded/weights/checkpoint-files.ts';
import type { GenerateRequest } from '../../../../src/engines/engine.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { datumOf } from '../support.ts';

/** What a device computes for a checkpoint. */
export interface DeviceResult {
  tokens: number[];
  logprobs: number[];
  scores: number[];
  metrics: Record<string, number>;
  adapter: number[];
  trainedLogprobs: number[];
  /** The error for a node that has no kernel on the device; null if it ran. */
  refusal: string | null;
}

/**
 * Samples, scores and trains a checkpoint on a device, in a process of its own: the settings of the graphics driver are
 * environment variables. Arguments: device, checkpoint, folder of the trained adapter. Prints a `DeviceResult`.
 */
async function main(device: EmbeddedEngineOptions['device'], folder: string, to: string): Promise<void> {
  const rank = 4;
  const checkpoints = [{ folder, id: 'model', lora: { rank } }];
  const engine = await createEmbeddedEngine({ threads: 1, device, checkpoints });
  const from = { baseModel: 'model', folder: null };
  const request = (seed: number, weights: GenerateRequest['weights'] = from): GenerateRequest => ({
    weights,
    prompt: engine.tokenizer(weights.baseModel).encode('Where is order 4821?'),
    sampling: plainSampling,
    seed,
    maxTokens: 12,
    stopStrings: [],
    stopTokens: [],
    constraint: null,
    topLogprobs: 2,
    priority: 0,
    cacheSalt: null,
  });
  const asked = request(7);
  const reply = await engine.generate(asked);
  const scores = await engine.scorePrompt({
    weights: from,
    prompt: [...asked.prompt, ...reply.tokens],
    top: 0,
  });
  const metrics: Record<string, number>[] = [];
  const loss = { type: 'cross_entropy' } as const;
  const datum = datumOf(asked, reply, 1);
  // The threads of sampling and of training use the device at the same time, and the tiny model the CPU.
  await Promise.all([
    engine.train({
      from,
      folder: to,
      batches: Array(2).fill({ datums: [datum], loss, reference: null, learningRate: 1e-2 }),
      onStep: (step) => metrics.push(step),
    }),
    ...[1, 2, 3, 4].map((seed) => engine.generate(request(seed))),
    engine.generate(request(1, { baseModel: 'martingale-tiny', folder: null })),
  ]);
  const trained = await engine.generate(request(7, { baseModel: 'model', folder: to }));
  await engine.close();
  const { architecture } = await readCheckpoint(folder);
  const shapes = adapterShapes(architecture, {
    ...{ rank, alpha: 2 * rank },
    targets: allProjections(architecture),
  });
  const result: DeviceResult = {
    tokens: reply.tokens,
    logprobs: reply.logprobs,
    scores: scores.slice(1).map((score) => score?.logprob ?? Number.NaN),
    metrics: metrics.at(-1) ?? {},
    adapter: [...(await readWeights(to, shapes))],
    trainedLogprobs: trained.logprobs,
    refusal: await refusalOf(device),
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

/** Creates a session with a product that WebGPU has no kernel for. */
async function refusalOf(device: EmbeddedEngineOptions['device']): Promise<string | null> {
  const graph = new Graph();
  const [left, right] = ['left', 'right'].map((name) => graph.input(name, 'float32', ['n', 'n'])) as [
    Value,
    Value,
  ];
  graph.output('product', graph.contribOp('FusedMatMul', [left, right], { transB: 1 }), ['n', 'n']);
  const runtime = await loadRuntime('onnxruntime-node', 1, device ? { device } : {});
  try {
    await (await runtime.session(graph.finish())).release();
    return null;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await runtime.close();
  }
}

const [device, folder, to] = process.argv.slice(2) as ['cpu' | 'webgpu', string, string];
await main(device, folder, to);
