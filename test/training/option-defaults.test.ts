import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { rlConfigSchema } from '../../src/contract/index.ts';
import { root } from '../support/programs.ts';

/** What options take that is not made of options. */
const values = [
  'Environment',
  'ModelHandle',
  'OpponentPast',
  'RolloutExecutor',
  'ScenarioSource',
  'StepReport',
];

interface Member {
  name: string;
  isOptional: boolean;
  comment: string;
  type: string;
}

const interfaces = /^export interface (\w+)([^{]*)\{\n([\s\S]*?)^\}/gm;
const types = /^export type (\w+)[^=]*=([\s\S]*?);\n\n/gm;
const members = /^ {2}(\/\*\*[\s\S]*?\*\/\n {2})?(?:readonly )?(\w+)(\??): ([\s\S]*?);$/gm;

const membersOf = (body: string): Member[] =>
  Array.from(body.matchAll(members), ([, comment = '', name = '', mark, type = '']) => ({
    name,
    isOptional: mark === '?',
    comment,
    type,
  }));

it('every option of train, also in an object, says what happens without it', async () => {
  const declared = new Map<string, { members: Member[]; names: string }>();
  for (const folder of ['training', 'rollout', 'evaluation', 'model'])
    for (const file of await readdir(join(root, 'src', folder), { recursive: true })) {
      if (!file.endsWith('.ts')) continue;
      const text = await readFile(join(root, 'src', folder, file), 'utf8');
      for (const [, name = '', extended = '', body = ''] of text.matchAll(interfaces)) {
        const own = membersOf(body);
        declared.set(name, { members: own, names: [extended, ...own.map(({ type }) => type)].join(' ') });
      }
      for (const [, name = '', type = ''] of text.matchAll(types))
        if (!declared.has(name)) declared.set(name, { members: [], names: type });
    }
  const followed = new Set(['TrainSettings', 'ModelSource', 'OpponentsOptions', 'EarlyStopOptions']);
  const options: string[] = [];
  const silent: string[] = [];
  for (const name of followed) {
    const found = declared.get(name);
    for (const { name: option, isOptional, comment } of found?.members ?? []) {
      if (!isOptional) continue;
      options.push(`${name}.${option}`);
      if (!comment.includes('@default ')) silent.push(`${name}.${option}`);
    }
    for (const [word] of found?.names.matchAll(/\w+/g) ?? [])
      if (declared.has(word) && !values.includes(word)) followed.add(word);
  }
  expect(silent).toEqual([]);
  expect(options).toEqual(
    expect.arrayContaining([
      ...['TrainSettings.seed', 'RolloutSettings.concurrency', 'SftSettings.batchSize', 'Teacher.weight'],
      ...[
        'ValidationOptions.everySteps',
        'KeepCheckpoints.best',
        'RunBudget.minutes',
        'LostJobOptions.waitMs',
      ],
      ...['OpenModelOptions.ifExists', 'OpponentsOptions.keep', 'PoolPlayer.weight', 'EarlyStopOptions.goal'],
    ]),
  );
  const { shape } = rlConfigSchema;
  const undescribed = Object.entries(shape).filter(
    ([, field]) => !/Default|default/.test(field.description ?? ''),
  );
  expect(undescribed.map(([name]) => name)).toEqual([]);
});
