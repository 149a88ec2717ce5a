import { readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { fromGroupRecords, type GroupRecord, requireGroupRecord } from '../rollout/index.ts';
import { messageOf } from '../util/error.ts';
import { sha256 } from '../util/json.ts';
import { readJsonLines } from '../util/json-lines.ts';
import { checkArgument } from '../util/option-names.ts';
import { RunError } from '../util/run-error.ts';
import { problemsOf } from '../util/show-value.ts';
import type { ComparedScores } from './compare-pair.ts';
import { pricesSchema } from './cost.ts';
import { groupsFile, headerFile } from './evaluation-directory.ts';
import { nameOfSuccess, scenarioKeys, scoreScenario, successOf } from './score-scenario.ts';

const prices = pricesSchema.optional();
const score = z.number().nullable().default(null);

/** A line of `evaluationJsonLines`, of which other programs need to write only the key and a score. */
const rowSchema = z.looseObject({
  environment: z.string().optional(),
  policy: z.string().optional(),
  key: z.union([z.string().min(1), z.number()]).transform(String),
  reward: score,
  success: z.union([score, z.boolean().transform(Number)]),
  scenario: z.unknown().optional(),
  title: z.string().optional(),
  judged: z.number().optional(),
  tokens: z.object({ promptTokens: z.number(), sampledTokens: z.number() }).nullish(),
  completed: z.number().optional(),
  milliseconds: z.array(z.number()).optional(),
  successBy: z.string().optional(),
  prices,
});

const headerSchema = z.looseObject({
  environment: z.string(),
  policy: z.string(),
  scenarios: z.number(),
  scenarioKeys: z.string(),
  rewards: z.record(z.string(), z.object({ weight: z.number(), code: z.string() })),
  prices,
});

/**
 * Reads the scores of a stored evaluation, for `compare` and the matchers: a folder that was the `directory` of
 * `evaluate`, or a file that `evaluationJsonLines` or `martingale eval --json` wrote. A folder is read with the default
 * `key` and `isSuccess`. Other programs may write such a file: a line for each scenario with its `key` and `reward` or
 * `success` is enough.
 * @throws RunError (`evaluation_directory_refused`) for anything else, and for an evaluation that has not ended.
 */
export async function readEvaluation(path: string): Promise<ComparedScores> {
  checkArgument('path', path, 'path');
  const full = resolve(path);
  const found = await stat(full).catch((cause: unknown) => {
    throw refused(
      full,
      'cannot be read: write it with `evaluate({ directory })` or `martingale eval --json`',
      cause,
    );
  });
  return found.isDirectory() ? readFolder(full) : readLines(full);
}

async function readFolder(folder: string): Promise<ComparedScores> {
  const header = headerSchema.safeParse(
    await readFile(join(folder, headerFile), 'utf8')
      .then(JSON.parse)
      .catch((cause: unknown) => {
        throw refused(folder, `is no stored evaluation: ${messageOf(cause)}`, cause);
      }),
  );
  if (!header.success) throw refused(folder, `has an invalid ${headerFile}: ${header.error.message}`);
  const { environment, policy, rewards, prices, ...expected } = header.data;
  const records: GroupRecord[] = [];
  for await (const { value } of valuesOf(join(folder, groupsFile))) records.push(requireGroupRecord(value));
  const groups = [...fromGroupRecords(records).values()].sort((a, b) => a.index - b.index);
  if (groups.length < expected.scenarios)
    throw refused(
      folder,
      `has ${groups.length} of ${expected.scenarios} scenarios: call \`evaluate\` with this folder again to run the others`,
    );
  const keys = scenarioKeys(groups.map(({ scenario }) => scenario));
  if (sha256(JSON.stringify(keys)) !== expected.scenarioKeys)
    throw refused(
      folder,
      'was made with the option `key`, which is not stored: call `evaluate` with this folder again, and pass what it returns',
    );
  const perScenario = groups.map((group, at) =>
    scoreScenario(group, { key: keys[at] ?? '', isSuccess: successOf }),
  );
  return { environment, policy, perScenario, rewards, prices, successBy: nameOfSuccess(successOf) };
}

async function readLines(file: string): Promise<ComparedScores> {
  const rows = new Map<string, z.output<typeof rowSchema>>();
  for await (const { value, line } of valuesOf(file)) {
    const { data, error } = rowSchema.safeParse(value);
    if (error)
      throw refused(
        file,
        `has line ${line}, which is no score of a scenario: ${problemsOf('line', value, error)}`,
      );
    if (rows.has(data.key))
      throw refused(file, `has the scenario "${data.key}" twice, the second time in line ${line}`);
    rows.set(data.key, data);
  }
  const [first] = rows.values();
  if (!first) throw refused(file, 'is empty');
  const { environment, policy = file, prices, successBy } = first;
  return { environment, policy, prices, successBy, perScenario: [...rows.values()] };
}

const valuesOf = (file: string) =>
  readJsonLines(file, (line, cause) => refused(file, `has line ${line}, which is not JSON`, cause));

const refused = (path: string, problem: string, cause?: unknown): RunError =>
  new RunError('evaluation_directory_refused', `${path} ${problem}.`, { cause });
