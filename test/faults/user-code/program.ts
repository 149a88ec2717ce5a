// Trains with an environment that misbehaves as its first argument (JSON) says, against its own service, and prints
// the results as lines of JSON.
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { generateText } from 'ai';
import { z } from 'zod';
import {
  createClient,
  defineEnvironment,
  type RunEvent,
  ScenarioSet,
  type Trajectory,
  train,
} from '../../../src/index.ts';
import { startService } from '../../../src/service/index.ts';
import { door } from '../../support/scripted-engine.ts';
import { CoinEngine } from '../../training/resume/coin-engine.ts';

export type Fault =
  | 'none'
  | 'rejects twice'
  | 'leaves a promise'
  | 'leaves a promise in a reward'
  | 'leaves a promise in a group reward'
  | 'leaves a promise for the next step'
  | 'leaves a promise for the job'
  | 'leaves what its end rejects'
  | 'rejects outside of any rollout'
  | 'throws in a timer'
  | 'holds the loop'
  | 'changes what it handed over'
  | 'an asynchronous listener that rejects'
  | 'scenarios that never come'
  | 'scenarios that throw'
  | 'a config that is a promise'
  | 'a stopWhen that is a promise';

const { fault, folder, resume }: { fault: Fault; folder: string; resume?: boolean } = JSON.parse(
  process.argv[2] ?? '{}',
);
const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
process.on('warning', ({ name, message, ...rest }) => say({ warning: message, name, ...rest }));

const engine = new CoinEngine();
const training = door();
if (fault === 'leaves a promise for the job')
  engine.hold = async (place) => {
    if (place !== 'train') return;
    void training.wait();
    // It rejects during this pause.
    await pause(20);
  };
const service = await startService({ engine, dataFolder: `${folder}/data` });
const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });

/** Leaves a promise behind; resolves when that promise has rejected. */
const leave = async (what: string, afterMs = 0) => {
  const due = pause(afterMs);
  void due.then(() => Promise.reject(new Error(what)));
  await due;
  await nextTurn();
};
/** Computes for this much time of the processor. */
function compute(milliseconds: number): void {
  const before = process.threadCpuUsage();
  const spentMs = ({ user, system }: NodeJS.CpuUsage) => (user + system) / 1000;
  while (spentMs(process.threadCpuUsage(before)) < milliseconds);
}
const held: Trajectory[] = [];
/** Values that could not be changed. */
const refused: string[] = [];
const change = (what: string, work: () => void) => {
  try {
    work();
  } catch (error) {
    refused.push(`${what}: ${error instanceof Error ? error.name : error}`);
  }
};
function changeAll(): void {
  for (const trajectory of held) {
    change('metrics', () => {
      trajectory.metrics.late = 1;
    });
    change('logs', () => trajectory.logs.push('late'));
    change('metadata', () => {
      trajectory.metadata.late = 'x';
    });
    change('reward', () => {
      trajectory.reward = 99;
    });
    change('step reward', () => trajectory.rewardCall(5));
    change('token ids', () => trajectory.choices[0]?.token_ids?.push(7));
    change('message', () => {
      const [first] = trajectory.histories[0]?.entries ?? [];
      if (first && 'role' in first) Object.assign(first, { content: 'late' });
    });
    change('entries', () => {
      trajectory.histories[0]?.entries.pop();
    });
  }
  held.length = 0;
}

/** Changes data after the last group is handed over and before its job is requested. */
function changeOnceHandedOver(): void {
  if (held.length === 0) return;
  if (held.every(({ metrics }) => Object.isFrozen(metrics))) changeAll();
  else setImmediate(changeOnceHandedOver);
}

const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model, signal }) => {
    const { text } = await generateText({ model: model.languageModel, prompt: `toss ${id}` });
    if (id === 1) {
      if (fault === 'rejects twice') {
        await leave('the second time');
        throw new RangeError('the first time');
      }
      if (fault === 'leaves a promise') await leave('left behind');
      if (fault === 'leaves a promise for the next step') void leave('late', 50);
      if (fault === 'leaves a promise for the job')
        void training.reached.then(() => Promise.reject(new Error('while the job trains')));
      if (fault === 'leaves what its end rejects')
        void new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      if (fault === 'throws in a timer')
        setTimeout(() => {
          throw new Error('nobody catches this');
        });
      if (fault === 'throws in a timer') await pause(1000);
      if (fault === 'holds the loop') compute(700);
    }
    return text;
  },
  rewards: {
    success: async ({ outcome, scenario: { id }, trajectory }) => {
      if (fault === 'changes what it handed over') held.push(trajectory);
      if (fault === 'leaves a promise in a reward' && id === 1) await leave('left by a reward');
      return Number(outcome);
    },
  },
  groupRewards: {
    even: async ({ members, scenario: { id } }) => {
      if (fault === 'leaves a promise in a group reward' && id === 1) await leave('left by a group reward');
      return members.map(() => 0);
    },
  },
});

if (fault === 'rejects outside of any rollout') void leave('of somebody else', 30);

const never = () => new Promise<never>(() => undefined);
async function* source() {
  for (let id = 0; ; id++) {
    if (id === 6 && fault === 'scenarios that never come') await never();
    if (id === 6 && fault === 'scenarios that throw') throw new Error('the file is broken');
    yield { id };
  }
}
const isSource = fault.startsWith('scenarios');

const onEvent = (event: RunEvent) => {
  if (event.type === 'alarm') say({ alarm: event.kind, message: event.message });
  if (event.type === 'rollouts' && event.done === event.total) changeOnceHandedOver();
  if (fault === 'an asynchronous listener that rejects') return Promise.reject(new Error('a view'));
  return undefined;
};

/** Options that types would reject. */
const untyped: object = {
  ...(fault === 'a config that is a promise' ? { config: async () => ({}) } : {}),
  ...(fault === 'a stopWhen that is a promise' ? { stopWhen: async () => false } : {}),
};

try {
  const result = await train({
    environment,
    scenarios: isSource ? ScenarioSet.generate(source) : [0, 1, 2, 3].map((id) => ({ id })),
    client,
    model: { project: 'user-code', name: 'coin', baseModel: 'scripted-tiny' },
    steps: 3,
    groupsPerStep: 4,
    rolloutsPerGroup: 4,
    seed: 3,
    runDirectory: `${folder}/run`,
    resume: resume ?? false,
    ...(isSource ? { scenarioTimeoutMs: 300 } : {}),
    ...untyped,
    onEvent,
  });
  const { reason, counts, reports } = result;
  say({
    reason,
    counts,
    reports: reports.length,
    loopDelayMs: reports.map(({ loopDelayMs }) => loopDelayMs),
  });
} catch (error) {
  if (!(error instanceof Error)) throw error;
  say({ error: error.message, code: 'code' in error ? error.code : null });
}
say({ refused: [...new Set(refused)] });
await client.close();
await service.close();
