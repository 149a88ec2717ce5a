// The service, the engine and the training in one process. Run it with: npx tsx examples/one-process.ts
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateText, Output } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { z } from 'zod';

const capitals = { france: 'paris', spain: 'madrid', italy: 'rome' } as const;

const geography = defineEnvironment({
  name: 'geography',
  scenario: z.object({ country: z.enum(['france', 'spain', 'italy']) }),
  rollout: async ({ scenario, model, signal }) => {
    const { output } = await generateText({
      model: model.languageModel,
      prompt: `the capital of ${scenario.country}`,
      output: Output.choice({ options: Object.values(capitals) }),
      abortSignal: signal,
    });
    return output;
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === capitals[scenario.country]) },
});

const scenarios = [{ country: 'france' }, { country: 'spain' }, { country: 'italy' }] as const;
const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-example-'));
const engine = await createEmbeddedEngine();
const service = await startService({ engine, dataFolder });
try {
  const { validation } = await train({
    environment: geography,
    scenarios,
    validation: { scenarios },
    baseUrl: service.url,
    apiKey: service.apiKey,
    model: { project: 'examples', name: 'geography', baseModel: 'martingale-tiny' },
    steps: Number(process.argv[2] ?? 40),
    groupsPerStep: 6,
    rolloutsPerGroup: 8,
    runDirectory: join(dataFolder, 'run'),
    onEvent: (event) => event.type === 'step' && console.log(event.step, event.reward.toFixed(2)),
  });
  console.log('greedy success', validation.before?.success?.mean, '->', validation.after?.success?.mean);
} finally {
  await service.close();
  await engine.close();
  await rm(dataFolder, { recursive: true });
}
