// Evaluates, or trains on conversations, as its JSON argument says; prints the outcome.
import { generateText } from 'ai';
import { z } from 'zod';
import { createClient, defineEnvironment, evaluate, openModel, sft } from '../../../src/index.ts';

const { task, baseUrl, apiKey, name, runDirectory, killAt, ...settings } = JSON.parse(
  process.argv[2] ?? '{}',
);
const client = createClient({ baseUrl, apiKey });
const model = await openModel({ client, project: 'resume', name, baseModel: 'scripted-tiny' });

const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model }) =>
    (await generateText({ model: model.languageModel, prompt: `toss ${id}` })).text,
  rewards: { success: ({ outcome }) => Number(outcome) },
});

if (task === 'evaluate') {
  const { reward, success, counts, perScenario } = await evaluate({
    environment,
    scenarios: [0, 1, 2, 3, 4].map((id) => ({ id })),
    rolloutsPerScenario: 2,
    model: model.at(0),
    directory: runDirectory,
    ...settings,
  });
  // Latencies differ from run to run.
  const scores = perScenario.map(({ milliseconds, ...score }) => ({ ...score, timed: milliseconds.length }));
  process.stdout.write(`${JSON.stringify({ reward, success, counts, perScenario: scores })}\n`);
} else {
  const examples = ['one', 'two', 'three'].map((content) => ({
    messages: [
      { role: 'user' as const, content },
      { role: 'assistant' as const, content: `${content}!` },
    ],
  }));
  const die = () => process.kill(process.pid, 'SIGKILL');
  const { uploads, sftTrainingJobs } = client;
  const upload = uploads.create.bind(uploads);
  uploads.create = async (...given) => {
    const answer = await upload(...given);
    if (killAt === 'uploaded') die();
    return answer;
  };
  const ask = sftTrainingJobs.create.bind(sftTrainingJobs);
  sftTrainingJobs.create = async (...given) => {
    const answer = await ask(...given);
    if (killAt === 'asked') die();
    return answer;
  };
  const onEvent = () => killAt === 'followed' && die();
  const trained = await sft({ model, examples, idempotencyKey: `${name}/start`, onEvent, ...settings });
  process.stdout.write(`${JSON.stringify({ ...trained, model: trained.model.step })}\n`);
}
await client.close();
