// Trains with the settings in its first argument (JSON), and kills itself at the requested point.
import { generateText } from 'ai';
import { z } from 'zod';
import { createClient, defineEnvironment, type RunEvent, train } from '../../../src/index.ts';

const {
  task: _,
  baseUrl,
  apiKey,
  dialect,
  name,
  kill,
  outage,
  ...settings
} = JSON.parse(process.argv[2] ?? '{}');
const client = createClient({ baseUrl, apiKey, dialect });
const die = () => process.kill(process.pid, 'SIGKILL');

let steps = 0;
/** After a number of steps in this process, rollouts fail: all of them, or those of some scenarios. */
const isAway = (id: number) =>
  outage !== undefined && steps >= outage.afterSteps && (outage.of === undefined || outage.of.includes(id));

const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model }) => {
    const { text } = await generateText({ model: model.languageModel, prompt: `toss ${id}` });
    if (isAway(id)) throw new Error('database is away');
    return text;
  },
  rewards: { success: ({ outcome }) => Number(outcome) },
});

/** Kills the process before or after the n-th call of a client method. */
function killAt(target: object, method: string): void {
  if (kill?.call !== method) return;
  const original: (...args: unknown[]) => Promise<unknown> = Reflect.get(target, method);
  let calls = 0;
  Reflect.set(target, method, async (...args: unknown[]) => {
    const isLast = calls++ === kill.at;
    if (isLast && kill.when === 'before') die();
    const answer = await original.apply(target, args);
    if (isLast) die();
    return answer;
  });
}
killAt(client.trainingJobs, 'create');
killAt(client.models, 'log');
killAt(client.models.checkpoints, 'list');
killAt(client.models.checkpoints, 'delete');

let events = 0;
const onEvent = (event: RunEvent) => {
  process.stdout.write(`${event.type}\n`);
  if (event.type === 'step') steps++;
  if (kill?.event === events++) die();
};
const { reason, finalStep, counts } = await train({
  environment,
  scenarios: [0, 1, 2, 3, 4].map((id) => ({ id })),
  validation: { scenarios: [{ id: 8 }, { id: 9 }], everySteps: 2 },
  client,
  model: { project: 'resume', name, baseModel: 'scripted-tiny' },
  steps: 4,
  groupsPerStep: 2,
  rolloutsPerGroup: 3,
  seed: 3,
  ...settings,
  onEvent,
});
process.stdout.write(`${JSON.stringify({ reason, finalStep, counts })}\n`);
await client.close();
