import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, openModel, sft, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { deskDemonstrations } from '../../recipes/desk/demonstrations.ts';
import { desk } from '../../recipes/desk/environment.ts';
import { deskScenarios } from '../../recipes/desk/scenarios.ts';
import { rlConfig, sftBatchSize, sftLearningRates } from '../../recipes/desk/schedule.ts';
import type { Engine } from '../../src/engines/engine.ts';

const sftBatches = 30;
const warmSteps = 3;
const countedSteps = 12;

/** Milliseconds that the engine was busy, by kind of work. */
interface EngineTimes {
  sampling: number;
  gradient: number;
  saving: number;
}

/** Wraps the engine to measure its time. Overlapping replies count once. */
function timed(engine: Engine, times: EngineTimes): Engine {
  let inFlight = 0;
  let since = 0;
  return {
    name: engine.name,
    baseModels: engine.baseModels,
    logitsProcessors: engine.logitsProcessors,
    tokenizer: (model) => engine.tokenizer(model),
    chatFormat: (model) => engine.chatFormat(model),
    checkConstraint: (model, constraint) => engine.checkConstraint(model, constraint),
    encodeReplies: (...request) => engine.encodeReplies(...request),
    beamSearch: (request) => engine.beamSearch(request),
    scorePrompt: (request) => engine.scorePrompt(request),
    exportWeights: (weights) => engine.exportWeights(weights),
    drop: (weights) => engine.drop(weights),
    close: () => engine.close(),
    generate: async (request, onDelta) => {
      if (inFlight++ === 0) since = performance.now();
      try {
        return await engine.generate(request, onDelta);
      } finally {
        if (--inFlight === 0) times.sampling += performance.now() - since;
      }
    },
    train: async (request) => {
      let last = performance.now();
      await engine.train({
        ...request,
        onStep: (...step) => {
          times.gradient += performance.now() - last;
          last = performance.now();
          request.onStep(...step);
        },
      });
      times.saving += performance.now() - last;
    },
  };
}

/** How the time of a training step is spent, in milliseconds and as a share, over a dozen steps. */
export async function benchStep(): Promise<{ part: string; milliseconds: number; share: number }[]> {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const times: EngineTimes = { sampling: 0, gradient: 0, saving: 0 };
  const engine = timed(await createEmbeddedEngine(), times);
  const service = await startService({ engine, dataFolder: join(folder, 'service') });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const walls = { rollouts: 0, log: 0, training: 0, checkpoint: 0, step: 0 };
  try {
    const started = await sft({
      model: await openModel({ client, project: 'bench', name: 'desk', baseModel: 'martingale-tiny' }),
      examples: await deskDemonstrations({ seed: 1, count: sftBatches * sftBatchSize }),
      batchSize: sftBatchSize,
      learningRate: sftLearningRates(sftBatches),
    });
    await train({
      environment: desk,
      scenarios: deskScenarios({ split: 'train', seed: 1, count: 1000 }),
      model: started.model,
      steps: warmSteps + countedSteps,
      groupsPerStep: 12,
      rolloutsPerGroup: 8,
      config: rlConfig,
      runDirectory: join(folder, 'run'),
      onEvent: (event) => {
        if (event.type !== 'step') return;
        if (event.step < warmSteps) Object.assign(times, { sampling: 0, gradient: 0, saving: 0 });
        else {
          for (const phase of ['rollouts', 'log', 'training', 'checkpoint'] as const)
            walls[phase] += event.phases[phase] * 1000;
          walls.step += event.seconds * 1000;
        }
      },
    });
  } finally {
    await client.close();
    await service.close();
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  }
  const parts: [string, number][] = [
    ['sampling: a reply in the engine', times.sampling],
    ['rollouts: agents and HTTP with no reply in the engine', walls.rollouts - times.sampling],
    ['trajectories to disk and to the log', walls.log],
    ['training: gradient step', times.gradient],
    ['training: checkpoint to disk', times.saving],
    ['training: request, queue, events', walls.training - times.gradient - times.saving],
    ['old checkpoints', walls.checkpoint],
    ['rest', walls.step - walls.rollouts - walls.log - walls.training - walls.checkpoint],
  ];
  return parts.map(([part, total]) => ({
    part,
    milliseconds: total / countedSteps,
    share: total / walls.step,
  }));
}
