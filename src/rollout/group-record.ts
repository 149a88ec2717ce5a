import {
  fromTrajectoryRecord,
  TrajectoryError,
  type TrajectoryRecord,
  toTrajectoryRecord,
} from '../trajectory/index.ts';
import { isObject } from '../util/json.ts';
import { type Rollout, type RolloutFailure, seatNotPlayed } from './rollout.ts';
import { type GroupSeat, RolloutGroup } from './rollout-group.ts';
import { meanReward } from './seats.ts';

interface RolloutRecordBase {
  index: number;
  attempt: number;
  seed: number;
  duration_ms: number;
}

/** A rollout in the record of its group: its outcome, and the index of its trajectory or failure. */
export type RolloutRecord = RolloutRecordBase &
  (
    | {
        status: 'completed';
        reward: number;
        /** Index in `trajectories`. */
        trajectory: number;
        /** What the rollout function returned, if JSON preserves it. */
        outcome?: unknown;
        /** Why `outcome` is missing. */
        outcome_missing?: string;
      }
    | {
        status: 'failed' | 'cancelled';
        /** Index in `failures`. */
        failure: number;
      }
  );

/** Why a rollout ended without a reward, and what was recorded before. */
export interface FailureRecord extends RolloutFailure {
  rollout: number;
  status: 'failed' | 'cancelled';
  trajectory: TrajectoryRecord;
}

/** A group on disk: one line of a run's `trajectories/*.jsonl`. */
export interface GroupRecord {
  group: number;
  scenario: unknown;
  /** What the environment calls the scenario; absent without its option `title`. */
  title?: string;
  /** What JSON cannot preserve of the scenario; absent if it preserves all of it. */
  scenario_lost?: string;
  /** Trajectories of the completed rollouts, in order. */
  trajectories: TrajectoryRecord[];
  metadata: Record<string, number | string | boolean | null>;
  exceptions?: { type: string; message: string }[];
  rollouts: RolloutRecord[];
  failures: FailureRecord[];
  /** Why the group is not trained on; absent if it is. */
  dropped_because?: RolloutFailure;
  /** The seat whose trajectories these are; absent in an environment with one agent. */
  seat?: GroupSeat;
}

const invalidGroupRecord = (what: string, options?: ErrorOptions) =>
  new TrajectoryError(
    'invalid_group_record',
    `A group record ${what}. Run directories are read by the version of martingale that wrote them, and later ones.`,
    options,
  );

/** One record for each seat of the group; one record without seats. */
export const toGroupRecords = (group: RolloutGroup): GroupRecord[] => group.bySeat().map(toGroupRecord);

/** The record of a group of one seat, or of an environment with one agent. */
export function toGroupRecord(group: RolloutGroup): GroupRecord {
  const trajectories: TrajectoryRecord[] = [];
  const failures: FailureRecord[] = [];
  const rollouts = group.rollouts.map((rollout): RolloutRecord => {
    const { index, attempt, seed, durationMs } = rollout;
    const base = { index, attempt, seed, duration_ms: durationMs };
    const trajectory = toTrajectoryRecord(rollout.trajectory);
    if (rollout.status === 'completed') {
      const { status, reward, outcome } = rollout;
      const lost = lostInJson(outcome);
      return {
        ...base,
        status,
        reward,
        trajectory: trajectories.push(trajectory) - 1,
        ...(lost === undefined ? { outcome } : { outcome_missing: lost }),
      };
    }
    const { status, failure } = rollout;
    const at = failures.push({ rollout: index, status, ...failure, trajectory }) - 1;
    return { ...base, status, failure: at };
  });
  const { metadata, exceptions } = group.toTrajectoryGroup();
  const lost = lostInJson(group.scenario);
  return {
    group: group.index,
    ...(lost === undefined
      ? { scenario: group.scenario }
      : { scenario: asJson(group.scenario), scenario_lost: lost }),
    ...(group.title === undefined ? {} : { title: group.title }),
    trajectories,
    metadata,
    ...(exceptions.length > 0 ? { exceptions: [...exceptions] } : {}),
    rollouts,
    failures,
    ...(group.droppedBecause ? { dropped_because: group.droppedBecause } : {}),
    ...(group.seat ? { seat: group.seat } : {}),
  };
}

/** Restores a group from its record. Its trajectories are closed; outcomes that were not stored are undefined. */
export function fromGroupRecord(record: GroupRecord): RolloutGroup {
  return new RolloutGroup({
    index: record.group,
    scenario: record.scenario,
    title: record.title,
    rollouts: record.rollouts.map((rollout) => fromRolloutRecord(rollout, record)),
    droppedBecause: record.dropped_because ?? null,
    seat: record.seat,
  });
}

/**
 * Restores the groups of records by their index, the seats of a group together. A later record of a group counts; a
 * group that lacks the record of a seat is left out.
 */
export function fromGroupRecords(records: Iterable<GroupRecord>): Map<number, RolloutGroup> {
  const groups = new Map<number, RolloutGroup>();
  const seats = new Map<number, RolloutGroup[]>();
  for (const record of records) {
    const group = fromGroupRecord(record);
    if (!group.seat) {
      groups.set(group.index, group);
      continue;
    }
    const { at, of } = group.seat;
    const index = Math.floor(group.index / of);
    const found = seats.get(index) ?? [];
    found[at] = group;
    seats.set(index, found);
    if (Object.keys(found).length === of) groups.set(index, joinSeats(index, found));
  }
  return groups;
}

/** The group whose seats these are: the reverse of `bySeat`. */
function joinSeats(index: number, groups: readonly RolloutGroup[]): RolloutGroup {
  const [first] = groups;
  if (!first) throw invalidGroupRecord('has no seats');
  const rollouts = first.rollouts.map((rollout, position): Rollout => {
    const own = groups.map((group) => group.rollouts[position] ?? rollout);
    const seats = groups.flatMap(({ seat }, at) => {
      const trajectory = own[at]?.trajectory;
      if (!seat || !trajectory) return [];
      const { name, model, trains, isPolicy } = seat;
      return [{ seat: name, model, trains, isPolicy, trajectory }];
    });
    const { trajectory } = seats.find(({ isPolicy }) => isPolicy) ?? rollout;
    const completed = own.find(({ status }) => status === 'completed');
    const ended = completed ?? own.find((one) => !isNotPlayed(one)) ?? rollout;
    const joined = { ...ended, trajectory, seats };
    return joined.status === 'completed' ? { ...joined, reward: meanReward(seats) } : joined;
  });
  const training = groups.find(({ seat }) => seat?.isPolicy);
  return new RolloutGroup({
    index,
    scenario: first.scenario,
    title: first.title,
    rollouts,
    droppedBecause: training?.droppedBecause ?? null,
  });
}

const isNotPlayed = (rollout: Rollout): boolean =>
  rollout.status === 'cancelled' && rollout.failure.code === seatNotPlayed;

/** Parses a line of a run's `trajectories/*.jsonl`. @throws TrajectoryError */
export function parseGroupRecord(line: string): GroupRecord {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw invalidGroupRecord('is not JSON', { cause });
  }
  return requireGroupRecord(value);
}

/** @throws TrajectoryError if the value is not a group record. */
export function requireGroupRecord(value: unknown): GroupRecord {
  if (isGroupRecord(value)) return value;
  throw invalidGroupRecord('has no list of rollouts, trajectories and failures');
}

function isGroupRecord(value: unknown): value is GroupRecord {
  if (!isObject(value)) return false;
  const { group, ...lists } = value;
  return (
    typeof group === 'number' &&
    [lists.rollouts, lists.trajectories, lists.failures].every((list) => Array.isArray(list))
  );
}

function fromRolloutRecord(record: RolloutRecord, group: GroupRecord): Rollout {
  const { index, attempt, seed, duration_ms: durationMs } = record;
  const base = { index, attempt, seed, durationMs };
  if (record.status === 'completed') {
    const trajectory = group.trajectories[record.trajectory];
    if (!trajectory) throw invalidGroupRecord(`lacks the trajectory of rollout ${index}`);
    const { status, reward, outcome } = record;
    return { ...base, status, reward, outcome, trajectory: fromTrajectoryRecord(trajectory) };
  }
  const failure = group.failures[record.failure];
  if (!failure) throw invalidGroupRecord(`lacks the failure of rollout ${index}`);
  const { rollout: _, status, trajectory, ...reason } = failure;
  return { ...base, status, failure: reason, trajectory: fromTrajectoryRecord(trajectory) };
}

/**
 * What JSON would not preserve of a value, with its path; undefined if it preserves everything. Undefined properties
 * pass, because they read the same when absent.
 */
function lostInJson(value: unknown, path = 'it', around = new Set<object>()): string | undefined {
  if (typeof value === 'number' && !Number.isFinite(value)) return `${path} is ${value}`;
  if (['bigint', 'function', 'symbol'].includes(typeof value)) return `${path} is a ${typeof value}`;
  if (typeof value !== 'object' || value === null) return undefined;
  if (around.has(value)) return `${path} contains itself`;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!Array.isArray(value) && prototype !== Object.prototype && prototype !== null)
    return `${path} is an instance of ${value.constructor?.name || 'a class'}`;
  if ('toJSON' in value && typeof value.toJSON === 'function') return `${path} has toJSON`;
  around.add(value);
  const isList = Array.isArray(value);
  for (const [key, member] of isList ? value.entries() : Object.entries(value)) {
    const memberPath = isList ? `${path}[${key}]` : `${path}.${key}`;
    const isHole = isList && member === undefined;
    const lost = isHole ? `${memberPath} is undefined` : lostInJson(member, memberPath, around);
    if (lost !== undefined) return lost;
  }
  around.delete(value);
  return undefined;
}

/** The value after a JSON round trip, which may lose parts of it; null if it cannot be serialized. */
function asJson(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value) ?? 'null');
  } catch {
    return null;
  }
}
