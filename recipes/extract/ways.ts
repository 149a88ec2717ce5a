/**
 * One environment, several ways to a better agent, in one table: the model as it is, with a better prompt, trained by
 * rewards, taught by the trained one, trained on the trained one's right replies, and trained with the better prompt:
 * `tsx recipes/extract/ways.ts --checkpoint <folder or GGUF file>`. Started again, it goes on where it ended.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import {
  compare,
  createClient,
  describeComparison,
  earlyStop,
  evaluate,
  type ModelHandle,
  openModel,
  optimize,
  type ReflectionRequest,
  type SftExample,
  sft,
  train,
} from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { extract, taughtExtract } from './environment.ts';
import { extractScenario, extractScenarios } from './scenarios.ts';

const { values } = parseArgs({
  options: {
    checkpoint: { type: 'string' },
    context: { type: 'string', default: '1024' },
    seed: { type: 'string', default: '1' },
    steps: { type: 'string', default: '40' },
    /** Rollouts of a step: six messages with so many each. */
    rollouts: { type: 'string', default: '8' },
    /** Number of held-out messages. */
    held: { type: 'string', default: '60' },
    directory: { type: 'string' },
  },
});
const { checkpoint } = values;
if (checkpoint === undefined) throw new Error('`--checkpoint` is missing. Pass a folder or a GGUF file.');

function wholeNumber(flag: 'context' | 'seed' | 'steps' | 'rollouts' | 'held', least = 1): number {
  const value = Number(values[flag]);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`\`--${flag}\` is ${values[flag]}. Pass a whole number of at least ${least}.`);
}

const contextLength = wholeNumber('context');
const [seed, steps, held] = [wholeNumber('seed', 0), wholeNumber('steps'), wholeNumber('held')];
const rolloutsPerGroup = wholeNumber('rollouts');
const directory = values.directory ?? `runs/extract-ways/seed-${seed}`;
const config = { learning_rate: 3e-4, entropy_coefficient: 0.01 };

const scenarios = extractScenarios({ split: 'train', seed, count: 2000 });
const heldOut = extractScenarios({ split: 'val', seed, count: held });
/** What the search for a prompt sees: messages for training too, and others to choose the best one. */
const [seen, validation] = [scenarios.slice(-60, -24), scenarios.slice(-24)];

/** Longest system prompt in characters: with a message and its reply it fits into the context. */
const longestPrompt = 2400;

/** Adds the first message that went wrong, with its order, as an example. */
function writeExample({ text, examples }: ReflectionRequest): string | null {
  const wrong = examples.find(({ reward }) => reward !== null && reward < 1);
  if (!wrong) return null;
  const { message, order } = extractScenario.parse(wrong.scenario);
  const longer = `${text}\n\nMessage: ${message}\nJSON: ${JSON.stringify(order)}`;
  return text.includes(message) || longer.length > longestPrompt ? null : longer;
}

const engine = await createEmbeddedEngine({
  checkpoints: [{ folder: checkpoint, id: 'base', contextLength }],
});
const service = await startService({ engine, dataFolder: join(directory, 'service'), log: () => undefined });
const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });

/** The base model under a name of its own, where a way begins. */
const begin = (name: string): Promise<ModelHandle> =>
  openModel({ client, project: 'extract', name: `${name}-${seed}`, baseModel: 'base' });

/** What runs of all ways share. */
const run = (name: string) => ({
  ...{ scenarios, steps, groupsPerStep: 6, rolloutsPerGroup, seed, resume: 'auto' as const },
  ...{ validation: { scenarios: heldOut, everySteps: 5 }, progress: 'plain' as const },
  runDirectory: join(directory, `${name}-run`),
});

const evaluated = (name: string, model: ModelHandle, environment = extract) =>
  evaluate({
    ...{ environment, model, scenarios: heldOut, directory: join(directory, name), progress: 'plain' },
  });

/** Training on the right replies of the teacher, to as many messages as ten steps have rollouts. */
async function trainOnReplies(teacher: ModelHandle, student: ModelHandle): Promise<ModelHandle> {
  const asked = scenarios.slice(0, Math.min(10, steps) * 6 * rolloutsPerGroup);
  const { groups } = await evaluate({
    ...{ environment: extract, scenarios: asked, model: teacher, temperature: 'agent', seed },
    ...{ directory: join(directory, 'replies-of-the-teacher'), progress: 'plain' },
  });
  const examples = groups.flatMap(({ scenario, rollouts }) =>
    rollouts.flatMap((rollout): SftExample[] => {
      if (rollout.status !== 'completed' || rollout.reward !== 1) return [];
      const user = { role: 'user', content: scenario.message } as const;
      const reply = { role: 'assistant', content: JSON.stringify(rollout.outcome) } as const;
      return [{ messages: [{ role: 'system', content: extract.texts.system }, user, reply] }];
    }),
  );
  if (examples.length === 0) return student.at(0);
  const learning = { batchSize: 16, learningRate: config.learning_rate };
  const { model } = await sft({ model: student, examples, ...learning, idempotencyKey: 'replies' });
  return model;
}

try {
  const before = (await begin('before')).at(0);
  const rows = [{ name: 'before', evaluation: await evaluated('before', before) }];

  const { texts } = await optimize({
    ...{ environment: extract, scenarios: seen, validation, model: before, reflect: writeExample },
    ...{ iterations: 24, minibatch: 6, runDirectory: join(directory, 'prompt-run') },
    ...{ resume: 'auto', progress: 'plain' },
  });
  const prompted = extract.withTexts(texts);
  rows.push({ name: 'prompt', evaluation: await evaluated('prompt', before, prompted) });

  const trained = await train({
    ...run('trained'),
    environment: extract,
    config,
    model: await begin('trained'),
  });
  const teacher = trained.model;
  rows.push({ name: 'trained', evaluation: await evaluated('trained', teacher) });

  const goal = (trained.validation.after?.success?.mean ?? 1) - 0.02;
  const stopWhen = earlyStop({ metric: 'validation_success', goal });
  const taught = await train({
    ...{
      ...run('taught'),
      environment: taughtExtract,
      model: await begin('taught'),
      teacher: { model: teacher },
    },
    ...{ config: { learning_rate: config.learning_rate }, stopWhen },
  });
  rows.push({ name: 'taught', evaluation: await evaluated('taught', taught.model) });

  const onReplies = await trainOnReplies(teacher, await begin('replies'));
  rows.push({ name: 'replies', evaluation: await evaluated('replies', onReplies) });

  const both = await train({ ...run('both'), environment: prompted, config, model: await begin('both') });
  rows.push({ name: 'both', evaluation: await evaluated('both', both.model, prompted) });

  console.log(`${texts.system}\n\n${describeComparison(await compare(rows))}`);
  for (const [name, { evaluations, seconds }] of Object.entries({ trained, taught, both })) {
    const curve = evaluations.map(({ step, success }) => `${step}: ${success?.toFixed(2)}`);
    console.log(`${name}, success by step: ${curve.join(', ')}; ${seconds.toFixed(0)} s`);
  }
} finally {
  await client.close();
  await service.close();
  await engine.close();
}
