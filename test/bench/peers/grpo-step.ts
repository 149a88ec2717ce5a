import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateText } from 'ai';
import { createClient, defineEnvironment, openModel, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { z } from 'zod';
import { benchModel } from '../engine.ts';

/** What is measured: steps of `groups` x `rollouts` rollouts. One more step, the last, is not counted. */
export interface GrpoWork {
  groups: number;
  rollouts: number;
  warmSteps: number;
  countedSteps: number;
}

/** Means of the counted steps. */
export interface GrpoStep {
  parameters: number;
  promptTokens: number;
  replyTokens: number;
  /** Wall clock. */
  milliseconds: number;
  /** Processor time of the process with all its threads. */
  cpuMilliseconds: number;
}

export const replyTokens = 60;
export const learningRate = 7e-4;

/** 16 tokens with the chat template: a letter with the space before it is a token, and so is a digit. */
export const scenarioText = (index: number) => `a b c d e f g h ${String(index).padStart(4, '0')}`;

/** Replies of exactly 60 tokens, with a reward that differs between replies. */
const letters = defineEnvironment({
  name: 'letters',
  scenario: z.object({ text: z.string() }),
  rollout: async ({ scenario, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: scenario.text,
      maxOutputTokens: replyTokens,
      abortSignal: signal,
      providerOptions: { martingale: { ignore_eos: true } },
    });
    return text;
  },
  rewards: { letters: ({ outcome }) => outcome.split('e').length - 1 },
});

/** A step of ours through HTTP, the service's journal and its disk, on one machine with the training script. */
export async function measureGrpoStep(work: GrpoWork & { maxStaleness: number }): Promise<GrpoStep> {
  const { groups, rollouts, warmSteps, countedSteps, maxStaleness } = work;
  const steps = warmSteps + countedSteps + 1;
  const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const engine = await createEmbeddedEngine();
  const service = await startService({ engine, dataFolder: join(folder, 'service') });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const ends: { at: number; cpu: number }[] = [];
  const usage = { promptTokens: 0, sampledTokens: 0 };
  try {
    await train({
      environment: letters,
      model: await openModel({ client, project: 'bench', name: 'letters', baseModel: benchModel }),
      scenarios: Array.from({ length: groups * steps }, (_, index) => ({ text: scenarioText(index) })),
      steps,
      groupsPerStep: groups,
      rolloutsPerGroup: rollouts,
      maxStaleness,
      config: { learning_rate: learningRate },
      runDirectory: join(folder, 'run'),
      onEvent: (event) => {
        if (event.type !== 'step') return;
        const { user, system } = process.cpuUsage();
        ends.push({ at: performance.now(), cpu: (user + system) / 1000 });
        usage.promptTokens += event.usage.promptTokens;
        usage.sampledTokens += event.usage.sampledTokens;
      },
    });
  } finally {
    await client.close();
    await service.close();
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  }
  const [first, last] = [ends[warmSteps - 1], ends[warmSteps + countedSteps - 1]];
  if (!first || !last) throw new Error(`the run ended after ${ends.length} of ${steps} steps`);
  const rolloutsOfRun = groups * rollouts * steps;
  return {
    parameters: engine.baseModels.find(({ id }) => id === benchModel)?.parameters ?? 0,
    promptTokens: usage.promptTokens / rolloutsOfRun,
    replyTokens: usage.sampledTokens / rolloutsOfRun,
    milliseconds: (last.at - first.at) / countedSteps,
    cpuMilliseconds: (last.cpu - first.cpu) / countedSteps,
  };
}
