import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import {
  type Client,
  createClient,
  earlyStop,
  evaluate,
  type ModelHandle,
  openModel,
  type SftExample,
  sft,
  train,
} from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { toGroupRecord } from 'martingale/records';
import { startService } from 'martingale/service';
import { deskDemonstrations, deskRequest } from '../../recipes/desk/demonstrations.ts';
import { desk, taughtDesk } from '../../recipes/desk/environment.ts';
import { deskScenarios } from '../../recipes/desk/scenarios.ts';
import { rlConfig, sftBatches, sftBatchSize, sftLearningRates } from '../../recipes/desk/schedule.ts';
import { SftExamples } from '../../src/cli/export/sft-examples.ts';
import { head, machine, row } from './table.ts';

/*
 * A tiny model after a warm start is trained to the success of a trained copy of it: by rewards alone, by the copy as its
 * teacher, and on the copy's rollouts. All see as many scenarios and rollouts in a step.
 */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '5' },
    steps: { type: 'string', default: '40' },
    every: { type: 'string', default: '2' },
  },
});
const [seeds, steps, every] = [Number(values.seeds), Number(values.steps), Number(values.every)];
const [groups, rollouts] = [12, 8];
/** A student has its teacher's success when it misses at most this share of it. */
const margin = 0.02;
const learning_rate = 1e-3;

interface Reached {
  /** Null: not within the steps. */
  step: number | null;
  success: number;
  seconds: number;
}

const percent = (share: number) => `${(100 * share).toFixed(0)}%`;

async function measure(client: Client, folder: string, seed: number) {
  const scenarios = deskScenarios({ split: 'train', seed, count: 5000 });
  const held = deskScenarios({ split: 'val', seed, count: 256 });
  const start = await openModel({
    ...{ client, project: 'distill', name: `start-${seed}`, baseModel: 'martingale-tiny' },
  });
  const warm = await sft({
    model: start,
    examples: await deskDemonstrations({ seed, count: sftBatches * sftBatchSize }),
    ...{ batchSize: sftBatchSize, learningRate: sftLearningRates(sftBatches), progress: false },
  });
  /** A copy of the model after the warm start. */
  const copy = async (name: string): Promise<ModelHandle> => {
    await client.models.fork(warm.model.id ?? '', { name: `${name}-${seed}` });
    return openModel({ client, project: 'distill', name: `${name}-${seed}`, baseModel: 'martingale-tiny' });
  };
  const successOf = async (model: ModelHandle) =>
    (await evaluate({ environment: desk, scenarios: held, model, progress: false })).success?.mean ?? 0;
  const common = {
    ...{ scenarios, steps, groupsPerStep: groups, rolloutsPerGroup: rollouts, progress: false as const },
    validation: { scenarios: held, everySteps: every },
  };
  const taught = await train({
    ...{ ...common, environment: desk, model: await copy('teacher'), config: rlConfig, seed },
    validation: { scenarios: held },
    runDirectory: join(folder, `teacher-${seed}`),
  });
  const teacher = taught.model;
  const ofTeacher = taught.validation.after?.success?.mean ?? 0;
  const goal = ofTeacher - margin;
  const stopWhen = earlyStop({ metric: 'validation_success', goal });
  const reachedBy = ({ evaluations, seconds }: Awaited<ReturnType<typeof train>>): Reached => {
    const at = evaluations.find(({ success }) => (success ?? 0) >= goal);
    const best = Math.max(...evaluations.map(({ success }) => success ?? 0));
    return { step: at?.step ?? null, success: best, seconds };
  };

  const fromRewards = reachedBy(
    await train({
      ...{ ...common, environment: desk, model: await copy('rewards'), config: rlConfig, seed: seed + 1000 },
      ...{ stopWhen, runDirectory: join(folder, `rewards-${seed}`) },
    }),
  );
  const fromTeacher = reachedBy(
    await train({
      ...{ ...common, environment: taughtDesk, model: await copy('taught'), seed: seed + 1000 },
      ...{ config: { learning_rate }, teacher: { model: teacher } },
      ...{ stopWhen, runDirectory: join(folder, `taught-${seed}`) },
    }),
  );

  const began = performance.now();
  // A rollout each: the best of a scenario is its example.
  const others = deskScenarios({ split: 'train', seed, count: steps * groups * rollouts });
  const request = await deskRequest();
  const student = await copy('supervised');
  const fromExamples: Reached = { step: null, success: 0, seconds: 0 };
  for (let step = every; step <= steps && fromExamples.step === null; step += every) {
    const asked = others.slice((step - every) * groups * rollouts, step * groups * rollouts);
    const sampled = await evaluate({
      ...{ environment: desk, scenarios: asked, model: teacher, temperature: 'agent', seed: seed + step },
      progress: false,
    });
    const right = new SftExamples({ minReward: 1 });
    for (const group of sampled.groups) right.add(toGroupRecord(group));
    const examples = right.lines.map((line): SftExample => ({ ...JSON.parse(line), ...request }));
    const batchSize = Math.ceil(examples.length / every);
    const { model } = await sft({
      ...{ model: student, examples, batchSize, learningRate: learning_rate, progress: false },
    });
    fromExamples.success = Math.max(fromExamples.success, await successOf(model));
    if (fromExamples.success >= goal) fromExamples.step = step;
  }
  fromExamples.seconds = (performance.now() - began) / 1000;
  return { before: await successOf(warm.model), ofTeacher, fromRewards, fromTeacher, fromExamples };
}

const folder = await mkdtemp(join(tmpdir(), 'martingale-distill-'));
const engine = await createEmbeddedEngine();
const service = await startService({ engine, dataFolder: join(folder, 'data'), log: () => undefined });
const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
try {
  console.log(`${machine}; steps of ${groups} x ${rollouts} rollouts until greedy success is within`);
  console.log(
    `${percent(margin)} of the teacher's on 256 held-out scenarios, looked at every ${every} steps:\n`,
  );
  head('seed', 'before', 'teacher', 'rewards alone', 'teacher alone', "teacher's rollouts");
  const cell = ({ step, success, seconds }: Reached) =>
    `${step === null ? `not in ${steps} (${percent(success)})` : `${step} steps`}, ${seconds.toFixed(0)} s`;
  for (let seed = 1; seed <= seeds; seed++) {
    const { before, ofTeacher, ...ways } = await measure(client, folder, seed);
    row(
      ...[seed, percent(before), percent(ofTeacher)],
      ...[ways.fromRewards, ways.fromTeacher, ways.fromExamples].map(cell),
    );
  }
} finally {
  await client.close();
  await service.close();
  await engine.close();
  await rm(folder, { recursive: true, force: true });
}
