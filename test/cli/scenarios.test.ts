import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ScenarioSet } from 'martingale';
import { recordedScenario } from 'martingale/records';
import { expect, it } from 'vitest';
import { output } from '../support/command.ts';
import { temporaryFolder } from '../support/files.ts';

const fixtures = join(import.meta.dirname, '../formats/conversations/fixtures');
const martingale = (...args: string[]) => output(['scenarios', ...args]);

it('writes files that a ScenarioSet reads, and tells what it could not read', async () => {
  const out = join(await temporaryFolder(), 'new/scenarios');
  const text = await martingale(fixtures, '--out', out);
  expect(text).toMatch(
    /^files +9\nmodel calls and groups of runs +27\ndifferent openings and scenarios +6\n/,
  );
  expect(text).toMatch(/train\.jsonl +5\n.*validation\.jsonl +1\n/);
  expect(text).toMatch(
    /not read, and where the first one is\n +a model call without its messages.* 2 .*ai-sdk-gen-ai\.json/,
  );
  const setOf = (name: string) =>
    ScenarioSet.fromJsonLines(join(out, name), { schema: recordedScenario }).toArray();
  const [train, validation] = [await setOf('train.jsonl'), await setOf('validation.jsonl')];
  expect([train.length, validation.length]).toEqual([5, 1]);
  await expect(martingale(fixtures, '--out', out)).rejects.toThrow('is not empty: name a new folder');
});

it('takes a function from a module, and prints its report as JSON', async () => {
  const folder = await temporaryFolder();
  const map = join(folder, 'map.ts');
  await writeFile(
    map,
    'export default ({ messages }: { messages: { content: string }[] }) => (messages.length > 1 ? { question: messages[1]?.content } : null);\n',
  );
  const out = join(folder, 'out');
  const report = JSON.parse(
    await martingale(fixtures, '--out', out, '--map', map, '--validation', '0', '--json'),
  );
  expect(report).toMatchObject({ different: 6, dropped: 2, merged: 3, train: 1, validation: 0 });
  expect(await ScenarioSet.fromJsonLines(join(out, 'train.jsonl')).toArray()).toEqual([
    { question: 'How many cups do you have?' },
  ]);
  expect(await readdir(out)).toEqual(['train.jsonl']);
  const other = join(folder, 'other.ts');
  await writeFile(other, 'export const other = 1;\n');
  await expect(martingale(fixtures, '--out', join(folder, 'b'), '--map', other)).rejects.toThrow(
    'exports no function by default',
  );
});

it('exits with 1 and writes nothing if there is no scenario', async () => {
  const folder = await temporaryFolder();
  const log = join(folder, 'log.jsonl');
  await writeFile(log, 'nothing\n');
  await expect(martingale(log, '--out', join(folder, 'out'))).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringContaining('no JSON'),
  });
  expect(await readdir(folder)).toEqual(['log.jsonl']);
});
