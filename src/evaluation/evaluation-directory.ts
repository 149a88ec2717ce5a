import { open, readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type RewardCodes, rewardChanges, type TextSet } from '../environment/index.ts';
import type { SamplingOverride } from '../model/index.ts';
import {
  fromGroupRecord,
  fromGroupRecords,
  type GroupRecord,
  parseGroupRecord,
  type RolloutGroup,
  toGroupRecords,
} from '../rollout/index.ts';
import { DurableAppends, makeFolder, storing, syncFolder, writeAtomically } from '../util/durable-files.ts';
import { messageOf } from '../util/error.ts';
import { isObject } from '../util/json.ts';
import { resumeLines } from '../util/json-lines.ts';
import { RunError } from '../util/run-error.ts';
import { warn } from '../util/warning.ts';
import { pricesSchema, type TokenPrices } from './cost.ts';

/** The settings that must be equal for a call to continue the evaluation of an earlier call. */
export interface EvaluationHeader {
  environment: string;
  policy: string;
  seed: number;
  rolloutsPerScenario: number;
  temperature: number | 'agent';
  /** Sampling settings of the model handle, which override the agent's. */
  sampling: SamplingOverride;
  groupStrategy: object | null;
  /** Names of the models of seats that others play; absent without them. */
  seats?: Record<string, string> | undefined;
  /** Texts of the environment; absent without them. */
  texts?: TextSet | undefined;
  scenarios: number;
  /** Digest of the scenarios' keys in their order. */
  scenarioKeys: string;
  /**
   * Rewards of the first call. A later call with others continues with a warning; stored rollouts keep their rewards.
   */
  rewards: RewardCodes;
  /** The prices of the last call that had some. */
  prices?: TokenPrices | undefined;
}

export const headerFile = 'evaluation.json';
export const groupsFile = 'groups.jsonl';

/**
 * An evaluation on disk:
 *
 *     evaluation.json   an EvaluationHeader
 *     groups.jsonl      a GroupRecord per line, in the order in which the groups ended; for a group that ran again, the
 *                       later line counts
 */
export class EvaluationDirectory {
  /** Groups of earlier calls, by their index. */
  readonly finished: ReadonlyMap<number, RolloutGroup>;
  readonly prices: TokenPrices | undefined;
  readonly #appends: DurableAppends;

  private constructor(file: string, { finished, prices }: Pick<EvaluationDirectory, 'finished' | 'prices'>) {
    this.#appends = new DurableAppends(file);
    this.finished = finished;
    this.prices = prices;
  }

  /** @throws RunError if the folder holds something else (the message names the difference) or cannot be written. */
  static async open(path: string, header: EvaluationHeader): Promise<EvaluationDirectory> {
    const folder = resolve(path);
    await storing(folder, () => makeFolder(folder));
    const names = await readdir(folder);
    const saved = names.includes(headerFile) ? await readHeader(join(folder, headerFile), header) : undefined;
    const prices = header.prices ?? saved?.prices;
    if (!saved && names.some((name) => name !== `${headerFile}.partial`))
      throw new RunError(
        'evaluation_directory_refused',
        `${folder} is not empty and has no ${headerFile}. Give each evaluation its own folder.`,
      );
    if (!saved || JSON.stringify(saved.prices) !== JSON.stringify(prices))
      await storing(join(folder, headerFile), () =>
        writeAtomically(join(folder, headerFile), [
          `${JSON.stringify({ ...(saved ?? header), prices }, null, 2)}\n`,
        ]),
      );
    const file = join(folder, groupsFile);
    const finished = await storing(file, () => readGroups(file));
    await storing(file, async () => {
      await using created = await open(file, 'a', 0o600);
      await created.sync();
      await syncFolder(folder);
    });
    return new EvaluationDirectory(file, { finished, prices });
  }

  /**
   * Resolves when the group is durable. Groups that end while others are being written are written together.
   * @throws RunError (`storage_failed`); after that, for every later group too.
   */
  append(group: RolloutGroup): Promise<void> {
    return this.#appends.append(() =>
      toGroupRecords(group)
        .map((record) => `${JSON.stringify(record)}\n`)
        .join(''),
    );
  }
}

/** @throws RunError if it belongs to another evaluation. */
async function readHeader(
  path: string,
  header: EvaluationHeader,
): Promise<{ prices?: TokenPrices | undefined }> {
  let saved: unknown;
  try {
    saved = JSON.parse(await readFile(path, 'utf8'));
  } catch (cause) {
    throw new RunError('evaluation_directory_refused', `${path} cannot be read: ${String(cause)}`, { cause });
  }
  const known = isObject(saved) ? saved : {};
  const fields = new Map(Object.entries(known));
  const { rewards, prices: _, ...settings } = header;
  const differences = Object.entries(settings)
    .map(([name, value]) => [name, JSON.stringify(fields.get(name)), JSON.stringify(value)] as const)
    .filter(([, was, is]) => was !== is)
    .map(([name, was, is]) => `\`${name}\` was ${was} and is ${is}`);
  if (differences.length === 0) {
    const changes = rewardChanges(fields.get('rewards'), rewards);
    if (changes.length > 0)
      warn(
        'martingale_rewards_changed',
        `${path} was begun with other rewards: ${changes.join('; ')}. What is stored there keeps its rewards. Choose another folder to score all with the new ones.`,
      );
    return { ...known, prices: pricesSchema.safeParse(known.prices).data };
  }
  throw new RunError(
    'evaluation_directory_refused',
    `${path} belongs to another evaluation: ${differences.join('; ')}. Choose another folder, or use the same options.`,
  );
}

/** Reads the stored groups and removes a partial last line, which a killed process leaves. */
async function readGroups(path: string): Promise<Map<number, RolloutGroup>> {
  const records: GroupRecord[] = [];
  let line = 0;
  for await (const text of resumeLines(path)) {
    line++;
    try {
      const record = parseGroupRecord(text);
      // A record that lacks a trajectory is named by its line.
      fromGroupRecord(record);
      records.push(record);
    } catch (cause) {
      const reason = messageOf(cause);
      throw new RunError('evaluation_directory_refused', `${path}:${line}: ${reason}`, { cause });
    }
  }
  return fromGroupRecords(records);
}
