// Does, without a umask, what makes files, in the folder of its first argument. Prints the mode of each that was there
// when a job began or at the end.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { generateText } from 'ai';
import { z } from 'zod';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { VerdictCache } from '../../../src/environment/judge/verdict-cache.ts';
import { createClient, defineEnvironment, evaluate, train } from '../../../src/index.ts';
import { KeyStore, startService } from '../../../src/service/index.ts';
import { recordCalls } from '../../../src/testing.ts';

process.umask(0);
const root = process.argv[2] ?? '';
const modes: Record<string, string> = {};
const modeOf = (path: string) => {
  const found = statSync(path);
  return `${found.isDirectory() ? 'folder' : 'file'} ${(found.mode & 0o777).toString(8)}`;
};
const look = () => {
  for (const entry of readdirSync(root, { recursive: true, encoding: 'utf8' }))
    modes[entry] = modeOf(join(root, entry));
};

const engine = await createEmbeddedEngine({ threads: 1 });
const trainThere = engine.train.bind(engine);
engine.train = (request) => {
  look();
  return trainThere(request);
};
const dataFolder = join(root, 'made', 'data');
const service = await startService({ engine, dataFolder });
const keys = await KeyStore.open(dataFolder);
keys.create('laptop');
const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });

const environment = defineEnvironment({
  name: 'toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario, model, seed }) =>
    (await generateText({ model: model.languageModel, prompt: `${scenario.id}`, seed, maxOutputTokens: 3 }))
      .text,
  rewards: { length: ({ outcome }) => outcome.length },
});
const { model } = await train({
  ...{ environment, scenarios: [{ id: 1 }, { id: 2 }], client, seed: 1 },
  model: { project: 'desk', name: 'agent', baseModel: 'martingale-tiny' },
  ...{ steps: 2, groupsPerStep: 2, rolloutsPerGroup: 4, runDirectory: join(root, 'runs', 'first') },
});
await evaluate({
  ...{ environment, scenarios: [{ id: 1 }], model, directory: join(root, 'evaluations', 'first') },
});
const example = [
  { role: 'user' as const, content: 'hello' },
  { role: 'assistant' as const, content: 'good morning' },
];
const { id } = await client.models.create({ project: 'desk', base_model: 'martingale-tiny' });
const { url } = await client.uploads.create(JSON.stringify({ messages: example }));
const job = await client.sftTrainingJobs.create({ model_id: id, training_data_url: url });
for await (const _ of client.trainingJobs.follow(job.id));
const messages = example.slice(0, 1);
const { choices } = await client.chat.completions.create({
  ...{ model: 'martingale-tiny', messages, n: 2, max_tokens: 4, logprobs: true, return_token_ids: true },
});
const trajectories = choices.map((choice, reward) => ({
  messages_and_choices: [...messages, choice],
  reward,
}));
const whole = await client.trainingJobs.create({ model_id: id, trajectory_groups: [{ trajectories }] });
for await (const _ of client.trainingJobs.follow(whole.id));
await client.models.fork(id, {});
const recorded = recordCalls({
  file: join(root, 'recordings', 'calls.jsonl'),
  completions: client.chat.completions,
});
await recorded.create({ model: 'martingale-tiny', messages: example.slice(0, 1), max_tokens: 2 });
const verdicts = new VerdictCache({ file: join(root, 'verdicts', 'jokes.jsonl'), size: 10 });
await verdicts.get('key');
await verdicts.set('key', 1);

look();
await client.close();
keys.close();
await service.close();
await engine.close();
process.stdout.write(JSON.stringify(modes));
