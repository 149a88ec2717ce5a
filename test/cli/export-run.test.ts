import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { CsvTable } from '../../src/cli/export/csv.ts';
import { SftExamples } from '../../src/cli/export/sft-examples.ts';
import { sftExampleSchema } from '../../src/contract/index.ts';
import type { GroupRecord } from '../../src/rollout/index.ts';
import { readRun } from '../../src/training/index.ts';
import { output } from '../support/command.ts';
import { sharedFolder, temporaryFolder } from '../support/files.ts';
import { makeRun } from '../view/make-run.ts';

const folder = sharedFolder();

beforeAll(() =>
  makeRun({ runDirectory: join(folder, 'desk'), steps: 2, groupsPerStep: 4, rolloutsPerGroup: 4, pace: 0.3 }),
);

async function exported(as: string, ...more: string[]): Promise<string> {
  const to = join(await temporaryFolder(), 'new', 'out.json');
  await output(['export', 'desk', '--in', folder, '--to', as, '--out', to, ...more]);
  return readFile(to, 'utf8');
}

/** The cells of a row; those in quotes may have commas. */
const cellsOf = (row: string): string[] =>
  [...row.matchAll(/(?:^|,)("(?:[^"]|"")*"|[^,]*)/g)].map(([, cell = '']) => cell);

it('csv has a line for each rollout, failed ones too, with its metrics', async () => {
  const [titles = '', ...rows] = (await exported('csv', '--step', '0', '1')).trimEnd().split('\r\n');
  expect(titles).toBe(
    'groups_of,group,scenario_key,title,scenario,seat,rollout,attempt,status,failure,reward,milliseconds,calls,tokens,brevity,success',
  );
  expect(rows).toHaveLength(32);
  expect(cellsOf(rows[0] ?? '')[3]).toMatch(/^Where is order \d+\?$/);
  const rewards = rows.filter((row) => row.includes(',completed,')).map(cellsOf);
  for (const cells of rewards)
    expect(Number(cells[10])).toBeCloseTo(Number(cells[14]) + Number(cells[15]), 9);
});

it('csv has the scenario as text beside its key, and whole milliseconds', () => {
  const table = new CsvTable();
  const rollout = { index: 0, attempt: 0, seed: 1, status: 'completed' as const, reward: 1, trajectory: 0 };
  const record: Omit<GroupRecord, 'scenario'> = {
    group: 0,
    metadata: {},
    rollouts: [{ ...rollout, duration_ms: 1234.567890123 }],
    trajectories: [],
    failures: [],
  };
  table.add({ name: 'step-0', record: { ...record, scenario: { question: 'a, "b"\nc' } } });
  table.add({ name: 'step-0', record: { ...record, scenario: { id: 'q7', text: 'x' } } });
  const [, hashed = '', named] = table.lines;
  expect(hashed).toMatch(
    /^step-0,0,[0-9a-f]{20},"a, ""b"" c","\{""question"":""a, \\""b\\""\\nc""\}",,0,0,completed,,1,1235,/,
  );
  expect(named).toContain('step-0,0,q7,q7,"{""id"":""q7"",""text"":""x""}",,0');
});

it('sft has the best rollout of each trained scenario as the service takes it, from a reward up, none twice', async () => {
  const lines = (await exported('sft', '--min-reward', '1')).trimEnd().split('\n');
  for (const line of lines) expect(sftExampleSchema.safeParse(JSON.parse(line)).error).toBeUndefined();
  expect(new Set(lines).size).toBe(lines.length);
  const rewards = new Map<string, number>();
  const run = await readRun(join(folder, 'desk'));
  // What an evaluation asks would be known by heart after training on it.
  const names = await run.groupNames();
  const steps = names.filter((name) => name.startsWith('step-'));
  expect(names.length).toBeGreaterThan(steps.length);
  for (const name of steps)
    for await (const { scenario, trajectories } of run.groups(name))
      for (const { reward = 0 } of trajectories)
        rewards.set(JSON.stringify(scenario), Math.max(reward, rewards.get(JSON.stringify(scenario)) ?? -1));
  expect(lines).toHaveLength([...rewards.values()].filter((reward) => reward >= 1).length);
  expect(
    (await exported('sft', '--step', 'before', '--min-reward', '-9')).trimEnd().split('\n').length,
  ).toBeGreaterThan(1);
  await expect(exported('sft', '--min-reward', '9')).rejects.toThrow(
    'no rollout of the run has a reward of at least 9',
  );
});

it('sft keeps tools and reasoning, and leaves out what has no reply', () => {
  const examples = new SftExamples({ minReward: 0 });
  const tools = [{ type: 'function' as const, function: { name: 'look', parameters: {} } }];
  const record = { id: 'a', policy: null, seed: 1, turns: 1, milliseconds: 1, calls: [], stop_reason: null };
  const reply = {
    index: 0,
    message: { role: 'assistant' as const, content: 'here', reasoning_content: 'think' },
    finish_reason: 'stop' as const,
    token_ids: [1, 2],
  };
  const base = { group: 0, metadata: {}, rollouts: [], failures: [] };
  const user = { role: 'user' as const, content: 'where?' };
  examples.add({
    ...base,
    scenario: 1,
    trajectories: [{ messages_and_choices: [user, reply], tools, reward: 1, record }],
  });
  examples.add({ ...base, scenario: 2, trajectories: [{ messages_and_choices: [user], reward: 1, record }] });
  expect(examples.lines.map((line) => JSON.parse(line))).toEqual([
    { messages: [user, { role: 'assistant', content: 'here', reasoning_content: 'think' }], tools },
  ]);
});

it('csv names the seat; sft has the best of each seat that the model of the run played', () => {
  const record = { id: 'a', policy: null, seed: 1, turns: 1, milliseconds: 1, calls: [], stop_reason: null };
  const says = (content: string, reward: number): GroupRecord['trajectories'][number] => ({
    messages_and_choices: [
      { role: 'user', content: 'go' },
      { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop', token_ids: [1] },
    ],
    reward,
    record,
  });
  const groupOf = (name: string, isPolicy: boolean, trajectory: GroupRecord['trajectories'][number]) => ({
    group: 0,
    scenario: 1,
    metadata: {},
    rollouts: [
      {
        index: 0,
        attempt: 0,
        seed: 1,
        duration_ms: 1,
        status: 'completed' as const,
        reward: 1,
        trajectory: 0,
      },
    ],
    failures: [],
    trajectories: [trajectory],
    seat: { name, at: 0, of: 3, model: 'm', trains: isPolicy, isPolicy },
  });
  const groups = [
    groupOf('x', true, says('a', 1)),
    groupOf('o', true, says('b', 0.5)),
    groupOf('z', false, says('c', 1)),
  ];
  const examples = new SftExamples({ minReward: 0 });
  const table = new CsvTable();
  for (const group of groups) {
    examples.add(group);
    table.add({ name: 'step-0000', record: group });
  }
  expect(examples.lines.map((line) => JSON.parse(line).messages.at(-1).content)).toEqual(['a', 'b']);
  expect(table.lines.slice(1).map((line) => cellsOf(line)[5])).toEqual(['x', 'o', 'z']);
});

it('refuses a file that exists, a step that is not there, and an unknown form', async () => {
  await expect(exported('csv', '--step', '9')).rejects.toThrow(
    'no groups of --step 9: it has after, before, step-0000',
  );
  await expect(exported('pdf')).rejects.toThrow(/inspect, trackio, atif, csv, sft/);
  await expect(exported('csv', '--merged')).rejects.toThrow(
    '--merged is for models, and --to csv writes a run',
  );
  const args = [
    'export',
    'desk',
    '--in',
    folder,
    '--to',
    'csv',
    '--out',
    join(folder, 'desk', 'config.json'),
  ];
  await expect(output(args)).rejects.toThrow('exists already');
});
