// The loop of train(), written by hand with public functions. Run it with: npx tsx examples/own-loop.ts
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateText, Output } from 'ai';
import { createClient, defineEnvironment, deriveSeed, openModel, runGroups } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import * as loop from 'martingale/loop';
import { startService } from 'martingale/service';
import { z } from 'zod';

const capitals = { france: 'paris', spain: 'madrid', italy: 'rome' } as const;
const environment = defineEnvironment({
  name: 'geography',
  scenario: z.object({ country: z.enum(['france', 'spain', 'italy']) }),
  rollout: async ({ scenario, model, signal }) => {
    const output = Output.choice({ options: Object.values(capitals) });
    const prompt = `the capital of ${scenario.country}`;
    const call = { model: model.languageModel, prompt, output, abortSignal: signal };
    return (await generateText(call)).output;
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === capitals[scenario.country]) },
});

const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-example-'));
const engine = await createEmbeddedEngine();
const service = await startService({ engine, dataFolder });
const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
try {
  const countries = Object.keys(capitals).map((country) => ({ country }));
  const source = loop.toScenarioSource(countries, 1);
  const opened = { client, project: 'examples', name: 'own-loop', baseModel: 'martingale-tiny' };
  let model = await openModel(opened);
  let kept: number[] = [];
  for (let step = 0; step < Number(process.argv[2] ?? 40); step++) {
    const scenarios = (await source.take(6)).map(({ scenario }) => environment.scenario.parse(scenario));
    const seed = deriveSeed(1, step);
    const gathered = await runGroups({ environment, scenarios, rolloutsPerGroup: 8, model, seed });
    const groups = gathered.groups
      .filter((group) => group.isTrainable)
      .map((group) => group.toTrajectoryGroup());
    const stored = await Promise.all(groups.map((group) => loop.storeGroup({ model, group })));
    await loop.logTrajectories({ model, split: 'train', groups: stored });
    const rewards = groups.flatMap(({ trajectories }) => trajectories.flatMap(({ reward }) => reward ?? []));
    console.log(step, (rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length).toFixed(2));
    if (!groups.some((group) => group.hasSignal)) continue;
    const { jobId } = await loop.submitTraining({ model, groups: stored });
    await loop.followJob({ client, jobId });
    const newest = await loop.newestStep(model);
    model = model.at(newest);
    kept = await loop.pruneCheckpoints({ model, steps: [...kept, newest], keep: 2 });
  }
  console.log('trained', model.name);
} finally {
  await client.close();
  await service.close();
  await engine.close();
  await rm(dataFolder, { recursive: true });
}
