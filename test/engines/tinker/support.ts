import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Engine, TrainingBatch, Weights } from '../../../src/engines/engine.ts';
import { createTinkerEngine } from '../../../src/engines/tinker/index.ts';
import { type LossConfig, plainSampling } from '../../../src/learning/index.ts';
import { generateCheckpoint } from '../embedded/checkpoint/generated.ts';
import { TinkerServer } from './tinker-server.ts';

/** That of the tokenizer. */
export const vocabularySize = 709;
export const baseModel = 'base';
export const untrained: Weights = { baseModel, folder: null };

export const sampleFrom = (engine: Engine, weights: Weights, options = {}) =>
  engine.generate({
    ...{ weights, prompt: [5, 6, 7], sampling: plainSampling, seed: 1, maxTokens: 5, stopStrings: [] },
    ...{ stopTokens: [], constraint: null, topLogprobs: 0, priority: 0, cacheSalt: null },
    ...options,
  });

export const ppo = {
  ...{ type: 'ppo', epsilon: 0.1, epsilonHigh: 0.3, maskRatio: false, maxRatio: null, tau: 0.1 },
  ...{ precalculateLogprobs: false, entropyCoefficient: 0, importanceLevel: 'sequence', truncation: null },
  klPenalty: null,
} satisfies LossConfig;

/** Two sequences of different lengths, one with two spans. */
export const datums = [
  {
    tokens: [5, 6, 7, 8, 9, 10],
    spans: [
      { ...{ start: 2, length: 2, logprobs: [-6.5, -6.7] }, advantage: 1 },
      { ...{ start: 5, length: 1, logprobs: [-6.4] }, advantage: -0.5 },
    ],
  },
  { tokens: [6, 11, 12], spans: [{ start: 1, length: 1, logprobs: [-6.6], advantage: 2 }] },
].map(({ tokens, spans }) => ({
  tokens,
  spans: spans.map((span) => ({ ...span, sampling: plainSampling, constraint: null, weight: 0.25 })),
}));

export const batch = (options: Partial<TrainingBatch> = {}): TrainingBatch => ({
  ...{ datums, loss: ppo, reference: null, learningRate: 0.1 },
  ...options,
});

export const serverOf = (options = {}) => TinkerServer.start({ vocabularySize, ...options });

/** Engines whose base model and checkpoints are in a folder. */
export function tinkerEngines(parent: string) {
  async function open(server: TinkerServer, options = {}): Promise<Engine> {
    const checkpoint = await generateCheckpoint(parent, 'qwen3');
    const engine = await createTinkerEngine({
      url: server.url,
      checkpoint,
      id: baseModel,
      rank: 4,
      ...options,
    });
    onTestFinished(() => engine.close());
    return engine;
  }

  async function trainOnce(
    engine: Engine,
    from: Weights,
    name: string,
    batches = [batch()],
    onWait: (reason: string) => void = () => undefined,
  ) {
    const metrics: Record<string, number>[] = [];
    const folder = join(parent, `${name}-${crypto.randomUUID()}`);
    await engine.train({ from, folder, batches, onStep: (step) => metrics.push(step), onWait });
    const { path } = JSON.parse(await readFile(join(folder, 'tinker.json'), 'utf8'));
    return { weights: { baseModel, folder }, path: path as string, metrics };
  }
  return { open, trainOnce };
}
