import {
  fromTrajectoryRecord,
  TrajectoryError,
  type TrajectoryRecord,
  toTrajectoryRecord,
} from '../trajectory/index.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';
import { RolloutGroup } from './rollout-group.ts';

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
}

const invalidGroupRecord = (what: string, options?: ErrorOptions) =>
  new TrajectoryError(
    'invalid_group_record',
    `A group record ${what}. Run directories are read by the version of martingale that wrote them, and later ones.`,
    options,
  );

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
    const place = failures.push({ rollout: index, status, ...failure, trajectory }) - 1;
    return { ...base, status, failure: place };
  });
  const { metadata, exceptions } = group.toTrajectoryGroup();
  const lost = lostInJson(group.scenario);
  return {
    group: group.index,
    ...(lost === undefined
      ? { scenario: group.scenario }
      : { scenario: asJson(group.scenario), scenario_lost: lost }),
    trajectories,
    metadata,
    ...(exceptions.length > 0 ? { exceptions: [...exceptions] } : {}),
    rollouts,
    failures,
    ...(group.droppedBecause ? { dropped_because: group.droppedBecause } : {}),
  };
}

/** Restores a group from its record. Its trajectories are closed; outcomes that were not stored are undefined. */
export function fromGroupRecord(record: GroupRecord): RolloutGroup {
  return new RolloutGroup({
    index: record.group,
    scenario: record.scenario,
    rollouts: record.rollouts.map((rollout) => fromRolloutRecord(rollout, record)),
    droppedBecause: record.dropped_because ?? null,
  });
}

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
  if (typeof value !== 'object' || value === null || !('rollouts' in value)) return false;
  if (!('group' in value) || !('trajectories' in value) || !('failures' in value)) return false;
  const { group, rollouts, trajectories, failures } = value;
  return (
    typeof group === 'number' &&
    Array.isArray(rollouts) &&
    Array.isArray(trajectories) &&
    Array.isArray(failures)
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
  return {
    ...base,
    status,
    failure: reason,
    trajectory: fromTrajectoryRecord(trajectory),
  };
}

/**
 * What JSON would not preserve of a value, with its path; undefined if it preserves everything. Undefined properties
 * pass, because they read the same when absent.
 */
export function lostInJson(value: unknown): string | undefined {
  return value === undefined ? undefined : lost(value, 'it', new Set());
}

function lost(value: unknown, place: string, within: Set<object>): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined;
    case 'number':
      return Number.isFinite(value) ? undefined : `${place} is ${value}`;
    case 'object':
      return value === null ? undefined : lostInObject(value, place, within);
    default:
      return `${place} is ${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}`;
  }
}

function lostInObject(value: object, place: string, within: Set<object>): string | undefined {
  if (within.has(value)) return `${place} contains itself`;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!Array.isArray(value) && prototype !== Object.prototype && prototype !== null)
    return `${place} is an instance of ${value.constructor?.name || 'a class'}`;
  if ('toJSON' in value && typeof value.toJSON === 'function') return `${place} has toJSON`;
  within.add(value);
  const found = Array.isArray(value)
    ? first(value.entries(), (member, index) => lost(member, `${place}[${index}]`, within))
    : first(Object.entries(value), (member, name) =>
        member === undefined ? undefined : lost(member, `${place}.${name}`, within),
      );
  within.delete(value);
  return found;
}

function first<Key>(
  entries: Iterable<[Key, unknown]>,
  find: (member: unknown, key: Key) => string | undefined,
): string | undefined {
  for (const [key, member] of entries) {
    const found = find(member, key);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The value after a JSON round trip, which may lose parts of it; null if it cannot be serialized. */
export function asJson(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value) ?? 'null');
  } catch {
    return null;
  }
}
