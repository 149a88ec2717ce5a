import { trainingLimits } from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';

import { malformed } from '../json/faults.ts';
import { wholeBytes } from '../json/parse-in-slices.ts';
import { groupsInFile, openGroupedFile } from './grouped-file.ts';
import { readJson } from './json-body.ts';
import { type BodyBytes, contentOf } from './received-body.ts';

/** The name of the list. */
export const groupsField = 'trajectory_groups';

/** JSON text of a trajectory or group on one line, in pieces that are good until the next is taken. */
export type LineText = () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

interface Part {
  /** Place of the group in the list. */
  group: number;
  value: unknown;
  line: LineText;
}

/** Length of its text, in bytes; null where it stood in a body or a group that is read as a whole. */
export type TrajectoryPart = Part & { type: 'trajectory'; index: number; bytes: number | null };

/** What a group is beside its trajectories, which stand in it as an empty list; or what stands there and is no group. */
export type GroupPart = Part & { type: 'group' };

/** A body whose `trajectory_groups` are read one trajectory at a time. */
export interface GroupedBody {
  /**
   * The body. The groups are in it only where it is read as a whole; else a list stands in their place that says no more than
   * whether there are any.
   */
  fields: unknown;
  /** The trajectories of each group in order, then the group. Lets others have their turn meanwhile. */
  groups: () => AsyncGenerator<TrajectoryPart | GroupPart>;
}

/**
 * Reads a body with a list of groups. Throws what is wrong with its text, as far as it has been read: a list that is
 * in a file is read by `groups`, which then throws. A member that stands twice counts as it stands last.
 */
export async function readGroupedBody(body: BodyBytes, known: ReadonlySet<string>): Promise<GroupedBody> {
  const slices = new TimeSlices();
  if (body.bytes <= wholeBytes) {
    const fields = await readJson(await contentOf(body), slices);
    return {
      fields,
      groups: () => groupsInMemory(isObject(fields) ? fields[groupsField] : undefined, slices),
    };
  }
  const { fields, list } = await openGroupedFile(body.source, known, slices);
  return {
    fields,
    groups: () => {
      if (list === null) throw malformed('there is no list of groups');
      return groupsInFile(body.source, list, slices);
    },
  };
}

async function* groupsInMemory(
  list: unknown,
  slices: TimeSlices,
): AsyncGenerator<TrajectoryPart | GroupPart> {
  for (const [group, value] of (Array.isArray(list) ? list : []).entries()) {
    for (const part of partsOf(value, group)) {
      if (slices.over) await slices.pause();
      yield part;
    }
  }
}

/** A group that is in memory, in parts. */
export function* partsOf(value: unknown, group: number): Generator<TrajectoryPart | GroupPart> {
  const trajectories = isObject(value) ? value.trajectories : undefined;
  const line = lineOf(value);
  // Of too many none is looked at.
  const isWhole = Array.isArray(trajectories) && trajectories.length <= trainingLimits.trajectories;
  if (!isObject(value) || !isWhole) {
    yield { type: 'group', group, value, line };
    return;
  }
  for (const [index, trajectory] of trajectories.entries())
    yield { type: 'trajectory', group, index, bytes: null, value: trajectory, line: lineOf(trajectory) };
  const beside: JsonObject = { ...value, trajectories: [] };
  yield { type: 'group', group, value: beside, line };
}

const lineOf =
  (value: unknown): LineText =>
  () => [Buffer.from(JSON.stringify(value))];
