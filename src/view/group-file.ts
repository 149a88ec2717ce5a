import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { parseModelName } from '../contract/index.ts';
import { inOneLine, scenarioKey, titleOfScenario } from '../environment/index.ts';
import { hasSignal } from '../learning/index.ts';
import { type GroupRecord, type GroupSeat, parseGroupRecord, seatNotPlayed } from '../rollout/index.ts';
import type { TrajectoryRecord } from '../trajectory/index.ts';
import { messageOf } from '../util/error.ts';
import { byteLines } from '../util/json-lines.ts';
import { sumOf } from '../util/sums.ts';
import type { FailureRow, RolloutRow, Stretch } from './api.ts';
import { stretchesOf } from './stretches.ts';

/** What lists and timelines need of a rollout. */
export interface RolloutFacts extends RolloutRow {
  success: number | null;
  version: number | null;
  /** Milliseconds since 1970; null if unknown. */
  start: number | null;
  milliseconds: number;
  stretches: Stretch[];
}

/** What lists need of a group, and where its record is in the file. */
export interface GroupFacts {
  offset: number;
  bytes: number;
  group: number;
  title: string;
  scenario: string;
  /** The seat whose part of the rollouts this is; null in an environment with one agent. */
  seat: GroupSeat | null;
  /** Pairs the scenario with the same one elsewhere. */
  key: string;
  rollouts: RolloutFacts[];
  hasSignal: boolean;
  isSolved: boolean;
  dropped: string | null;
}

/** A file of groups, read once. */
export interface GroupFile {
  path: string;
  /** By number. A group that was written twice counts as it was written last. */
  groups: GroupFacts[];
  /** By kind, most frequent first. */
  failures: FailureRow[];
  /** Lines that cannot be read. */
  problems: string[];
}

/** Most rollouts whose facts are kept in memory. */
const maxRollouts = 100_000;
const maxProblems = 20;

interface Kept {
  signature: string;
  file: Promise<GroupFile>;
  rollouts: number;
}

/**
 * Reads files of groups: the whole file once for lists, then single groups by their place. Keeps what lists need of the
 * files that were used last, and reads a file again when it has changed.
 */
export class GroupFiles {
  readonly #kept = new Map<string, Kept>();

  async read(path: string): Promise<GroupFile> {
    const { size, mtimeMs } = await stat(path);
    const signature = `${size} ${mtimeMs}`;
    const kept = this.#kept.get(path);
    this.#kept.delete(path);
    const entry =
      kept?.signature === signature ? kept : { signature, file: readGroupFile(path, size), rollouts: 0 };
    this.#kept.set(path, entry);
    try {
      const file = await entry.file;
      entry.rollouts = sumOf(file.groups, ({ rollouts }) => rollouts.length);
      this.#forgetOldest();
      return file;
    } catch (error) {
      if (this.#kept.get(path) === entry) this.#kept.delete(path);
      throw error;
    }
  }

  #forgetOldest(): void {
    let total = sumOf([...this.#kept.values()], ({ rollouts }) => rollouts);
    for (const [path, { rollouts }] of this.#kept) {
      if (total <= maxRollouts || this.#kept.size === 1) return;
      this.#kept.delete(path);
      total -= rollouts;
    }
  }
}

/** The record of one group of a file. */
export async function readGroup(path: string, { offset, bytes }: GroupFacts): Promise<GroupRecord> {
  await using file = await open(path);
  const { buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, offset);
  return parseGroupRecord(buffer.toString('utf8'));
}

/** @param size The file may grow meanwhile: later bytes are not read. */
async function readGroupFile(path: string, size: number): Promise<GroupFile> {
  const groups = new Map<number, GroupFacts>();
  const failures = new Map<string, FailureRow>();
  const problems: string[] = [];
  if (size > 0) {
    let offset = 0;
    for await (const { bytes, number, end, isTorn } of byteLines(createReadStream(path, { end: size - 1 }))) {
      // A line that is being written at this moment is no problem.
      if (isTorn) break;
      try {
        const record = parseGroupRecord(bytes.toString('utf8'));
        groups.set(record.group, factsOf(record, { offset, bytes: bytes.length }));
        addFailures(failures, record);
      } catch (error) {
        if (problems.length < maxProblems) problems.push(`line ${number}: ${messageOf(error)}`);
      }
      offset = end;
    }
  }
  return {
    path,
    groups: [...groups.values()].sort((a, b) => a.group - b.group),
    failures: [...failures.values()].sort((a, b) => b.count - a.count),
    problems,
  };
}

function factsOf(record: GroupRecord, place: Pick<GroupFacts, 'offset' | 'bytes'>): GroupFacts {
  const { group, scenario, title, dropped_because: dropped, seat } = record;
  const ofSeat = (text: string) => (seat ? `${seat.name}: ${text}` : text);
  const rollouts = record.rollouts.map((_, at) => rolloutFacts(record, at));
  return {
    ...place,
    group,
    title: ofSeat(titleOfScenario(scenario, title)),
    scenario: inOneLine(scenario),
    seat: seat ?? null,
    key: ofSeat(keyOfGroup(scenario, group)),
    rollouts,
    hasSignal: groupHasSignal(record),
    isSolved: rollouts.length > 0 && rollouts.every(({ success }) => success !== null && success >= 1),
    dropped: dropped ? `${dropped.code}: ${dropped.message}` : null,
  };
}

function rolloutFacts(record: GroupRecord, at: number): RolloutFacts {
  const { rollout, status, trajectory, failure } = partsOf(record, at);
  const start = trajectory?.start_time ? Date.parse(trajectory.start_time) : Number.NaN;
  const policy = trajectory?.record.policy;
  const success = trajectory?.metrics?.success;
  return {
    rollout: at,
    status,
    reward: rollout.status === 'completed' ? rollout.reward : null,
    failure: failure?.code ?? null,
    success: success === undefined || rollout.status !== 'completed' ? null : Number(success),
    version: trajectory?.initial_policy_version ?? (policy ? (parseModelName(policy)?.step ?? null) : null),
    start: Number.isNaN(start) ? null : start,
    milliseconds: rollout.duration_ms,
    stretches: trajectory ? stretchesOf(trajectory, rollout.duration_ms) : [],
  };
}

/** A rollout of a group by its position in the record, with its trajectory. A seat without a turn has not failed. */
export function partsOf(record: GroupRecord, at: number) {
  const rollout = record.rollouts[at];
  if (!rollout) throw new RangeError(`the group has no rollout ${at}`);
  const failure = rollout.status === 'completed' ? undefined : record.failures[rollout.failure];
  const trajectory: TrajectoryRecord | undefined =
    rollout.status === 'completed' ? record.trajectories[rollout.trajectory] : failure?.trajectory;
  if (failure?.code === seatNotPlayed)
    return { rollout, status: 'not_played' as const, trajectory, failure: undefined };
  return { rollout, status: rollout.status, trajectory, failure };
}

/** Conversations of a trajectory, the main one first. */
export const conversationsOf = (trajectory: TrajectoryRecord) => [
  trajectory,
  ...(trajectory.additional_histories ?? []),
];

/** Whether the job could learn from the group, as it decides itself. */
function groupHasSignal({ trajectories, dropped_because: dropped }: GroupRecord): boolean {
  if (dropped || trajectories.length === 0) return false;
  return hasSignal(trajectories.map(creditedOf));
}

/** The reward of a trajectory, and the credits of its choices in order. */
export const creditedOf = (trajectory: TrajectoryRecord) => ({
  reward: trajectory.reward ?? 0,
  credits: conversationsOf(trajectory).flatMap(({ messages_and_choices: entries }) =>
    entries.flatMap((entry) => ('message' in entry ? [entry.credited_reward ?? null] : [])),
  ),
});

function addFailures(failures: Map<string, FailureRow>, record: GroupRecord): void {
  const { group, seat } = record;
  // The seats of a rollout fail together.
  if (seat && seat.at > 0) return;
  for (const rollout of record.rollouts.keys()) {
    const { failure } = partsOf(record, rollout);
    if (!failure) continue;
    const { code, message, at = null, stack = null } = failure;
    const key = `${code} ${at}`;
    const known = failures.get(key);
    if (known) known.count++;
    else failures.set(key, { code, message, at, stack, count: 1, group, rollout });
  }
}

/** The key of a group's scenario; the number of the group for a scenario that has none. */
export function keyOfGroup(scenario: unknown, group: number): string {
  try {
    return scenarioKey(scenario);
  } catch {
    return `group ${group}`;
  }
}
