import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEmbeddedEngine } from 'martingale/embedded';
import type { Weights } from '../../../src/engines/engine.ts';
import { plainSampling, resolveRlConfig } from '../../../src/learning/index.ts';
import { benchModel } from '../engine.ts';
import { type GrpoStep, type GrpoWork, learningRate, replyTokens, scenarioText } from './grpo-step.ts';

const sampling = { ...plainSampling, ignoreEnd: true };

/**
 * The same steps by the engine alone: sampling, then training with its checkpoint on the disk. What `measureGrpoStep`
 * takes beyond it is agents, HTTP, rewards, journal and the job.
 */
export async function measureEngineStep({
  groups,
  rollouts,
  warmSteps,
  countedSteps,
}: GrpoWork): Promise<GrpoStep> {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const engine = await createEmbeddedEngine();
  const tokenizer = engine.tokenizer(benchModel);
  const { loss } = resolveRlConfig(undefined, { learningRate });
  const usage = { promptTokens: 0, sampledTokens: 0 };
  let weights: Weights = { baseModel: benchModel, folder: null };

  const reply = async (prompt: number[], seed: number) => {
    const { tokens, logprobs } = await engine.generate({
      ...{ weights, prompt, sampling, seed, maxTokens: replyTokens },
      ...{ stopStrings: [], stopTokens: [], constraint: null, topLogprobs: 0, priority: 0, cacheSalt: null },
    });
    usage.promptTokens += prompt.length;
    usage.sampledTokens += tokens.length;
    const span = { start: prompt.length, length: tokens.length, logprobs, sampling, constraint: null };
    return { tokens: [...prompt, ...tokens], span };
  };
  const takeStep = async (step: number) => {
    const seeds = Array.from({ length: rollouts }, (_, index) => step * rollouts + index);
    // Two letters in place of the chat template's tokens.
    const prompts = Array.from({ length: groups }, (_, group) =>
      tokenizer.encode(`y z ${scenarioText(step * groups + group)}`),
    );
    const replies = await Promise.all(prompts.flatMap((prompt) => seeds.map((seed) => reply(prompt, seed))));
    const weight = 1 / (replies.length * replyTokens);
    const datums = replies.map(({ tokens, span }, index) => ({
      tokens,
      spans: [{ ...span, advantage: index % 2 === 0 ? 1 : -1, weight }],
    }));
    const batch = { datums, loss, reference: null, learningRate };
    const next = join(folder, String(step));
    await engine.train({ from: weights, folder: next, batches: [batch], onStep: () => {} });
    weights = { baseModel: benchModel, folder: next };
  };
  try {
    for (let step = 0; step < warmSteps; step++) await takeStep(step);
    const [started, before] = [performance.now(), process.cpuUsage()];
    for (let step = 0; step < countedSteps; step++) await takeStep(warmSteps + step);
    const milliseconds = performance.now() - started;
    const { user, system } = process.cpuUsage(before);
    const all = groups * rollouts * (warmSteps + countedSteps);
    return {
      parameters: engine.baseModels.find(({ id }) => id === benchModel)?.parameters ?? 0,
      promptTokens: usage.promptTokens / all,
      replyTokens: usage.sampledTokens / all,
      milliseconds: milliseconds / countedSteps,
      cpuMilliseconds: (user + system) / 1000 / countedSteps,
    };
  } finally {
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  }
}
