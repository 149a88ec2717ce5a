import { trainingLimits } from '../../contract/index.ts';
import { isObject } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { invalidField, RequestValidationError } from '../errors.ts';
import type { ByteSource, Range } from '../json/byte-source.ts';
import { childrenOf } from '../json/children.ts';
import {
  checkInSlices,
  containerAt,
  keyAt,
  parseInSlices,
  parsePart,
  runsOf,
  wholeBytes,
  wholeText,
} from '../json/parse.ts';
import { malformed } from '../json/shape.ts';
import { omitted } from '../shown-issue.ts';
import { type BodyBytes, contentOf } from './bodies.ts';
import { type GroupPart, groupsField, lineIn, lineOf, partsOf, type TrajectoryPart } from './group-parts.ts';
import { readJson } from './json-body.ts';

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

/** Most bytes of one trajectory: it is held in memory as a whole. */
export const largestTrajectory = 64 * 1024 ** 2;

/** Most bytes of a group, and of a body, beside the list that is read piece by piece. */
export const largestBeside = 16 * 1024 ** 2;

/** Most members of a group and of a body. */
const mostMembers = 1000;

export interface GroupedFile {
  fields: unknown;
  list: Range | null;
}

/** Reads the fields of a body that is not read as a whole, and finds its groups. */
export async function openGroupedFile(
  source: ByteSource,
  known: ReadonlySet<string>,
  slices: TimeSlices,
): Promise<GroupedFile> {
  const whole = await wholeText(source);
  if (whole.start === whole.end) throw malformed('Unexpected end of JSON input');
  const opening = await containerAt(source, whole);
  // Whatever else it is, no object is what is said of it.
  if (opening !== '{') return { fields: omittedAt(opening), list: null };
  const { members, list } = await membersOf(source, whole, {
    listName: groupsField,
    at: [],
    slices,
    // A field that there is not is refused by its name, whatever its length.
    passes: (name) => !known.has(name),
  });
  const fields = Object.fromEntries(members);
  if (list === null) return { fields, list };
  const isEmpty = (await childrenOf(source, list, slices).next()).done === true;
  return { fields: { ...fields, [groupsField]: isEmpty ? [] : omitted.list }, list };
}

/** The groups of a list, part by part. */
export async function* groupsInFile(
  source: ByteSource,
  list: Range,
  slices: TimeSlices,
): AsyncGenerator<TrajectoryPart | GroupPart> {
  for await (const run of runsOf(source, list, { longest: wholeBytes, slices, keepsAll: true })) {
    const bytes = run.end - run.start <= wholeBytes ? await source.read(run) : null;
    for (const [at, { start, end }] of run.children.entries()) {
      if (slices.over) await slices.pause();
      const group = run.first + at;
      if (group >= trainingLimits.groups) throw tooMany([groupsField], trainingLimits.groups);
      if (bytes) {
        const value = parsePart(bytes.subarray(start - run.start, end - run.start), start);
        for (const part of partsOf(value, group)) yield part;
      } else yield* largeGroup(source, { start, end }, group, slices);
    }
  }
}

async function* largeGroup(
  source: ByteSource,
  range: Range,
  group: number,
  slices: TimeSlices,
): AsyncGenerator<TrajectoryPart | GroupPart> {
  const line = lineIn(source, range);
  if ((await containerAt(source, range)) !== '{') {
    await checkInSlices(source, range, slices);
    // No group, and too long to be shown.
    yield { type: 'group', group, value: omittedAt(await containerAt(source, range)), line };
    return;
  }
  const { members, list } = await membersOf(source, range, {
    listName: 'trajectories',
    at: [groupsField, group],
    slices,
    passes: () => false,
  });
  const beside = Object.fromEntries(members);
  if (list) yield* trajectoriesIn(source, list, group, slices);
  yield { type: 'group', group, value: list ? { ...beside, trajectories: [] } : beside, line };
}

async function* trajectoriesIn(
  source: ByteSource,
  list: Range,
  group: number,
  slices: TimeSlices,
): AsyncGenerator<TrajectoryPart> {
  for await (const run of runsOf(source, list, { longest: wholeBytes, slices, keepsAll: true })) {
    const read = run.end - run.start <= wholeBytes ? await source.read(run) : null;
    for (const [at, { start, end }] of run.children.entries()) {
      if (slices.over) await slices.pause();
      const index = run.first + at;
      if (index >= trainingLimits.trajectories)
        throw tooMany([groupsField, group, 'trajectories'], trainingLimits.trajectories);
      const bytes = end - start;
      if (bytes > largestTrajectory)
        throw invalidField(
          [groupsField, group, 'trajectories', index],
          `has ${bytes} bytes; a trajectory may have at most ${largestTrajectory}`,
          omittedAt(await containerAt(source, { start, end })),
        );
      const value = read
        ? parsePart(read.subarray(start - run.start, end - run.start), start)
        : await parseInSlices(source, { start, end }, { slices });
      const line = read
        ? lineOf(read.subarray(start - run.start, end - run.start))
        : lineIn(source, { start, end });
      yield { type: 'trajectory', group, index, bytes, value, line };
    }
  }
}

/** As of a list in memory, but that how many there are has not been counted. */
const tooMany = (place: (string | number)[], maximum: number) =>
  new RequestValidationError([
    {
      ...{ loc: ['body', ...place], type: 'too_long', input: omitted.list, ctx: { max_length: maximum } },
      msg: `has more than ${maximum} elements, and ${maximum} is the most; send fewer`,
    },
  ]);

/** Stands for a value that is too long to be read: of its kind, so that what is said of it is right. */
const omittedAt = (opening: '{' | '[' | null) =>
  opening === null ? omitted.text : opening === '[' ? omitted.list : omitted.object;

interface MembersOptions {
  /** The member that is not read where it is a list. */
  listName: string;
  /** Where the object stands, for complaints. */
  at: (string | number)[];
  slices: TimeSlices;
  /** Whether a member of this name is passed over where it is long. */
  passes: (name: string) => boolean;
}

/** The members of an object but for one list, of which it is said where it is. */
async function membersOf(
  source: ByteSource,
  range: Range,
  { listName, at, slices, passes }: MembersOptions,
): Promise<{ members: Map<string, unknown>; list: Range | null }> {
  const members = new Map<string, unknown>();
  let list: Range | null = null;
  let bytes = 0;
  let count = 0;
  const refuse = (name: string[], reason: string) => invalidField([...at, ...name], reason, omitted.object);
  for await (const child of childrenOf(source, range, slices)) {
    if (!child.key) continue;
    if (child.key.end - child.key.start > largestBeside)
      throw refuse([], 'has a field whose name is too long');
    const name = await keyAt(source, child.key);
    if (++count > mostMembers) throw refuse([], `has more than ${mostMembers} fields`);
    if (name === listName) {
      // The one before it does not count, but is a part of the text.
      if (list) await checkInSlices(source, list, slices);
      list = null;
      if ((await containerAt(source, child)) === '[') {
        members.delete(name);
        list = { start: child.start, end: child.end };
        continue;
      }
    }
    const length = child.end - child.start;
    if (passes(name) && length > wholeBytes) {
      await checkInSlices(source, child, slices);
      members.set(name, omittedAt(await containerAt(source, child)));
      continue;
    }
    bytes += length;
    if (bytes > largestBeside)
      throw refuse([name], `is too long: beside ${listName} at most ${largestBeside} bytes are read`);
    members.set(name, await parseInSlices(source, child, { slices }));
  }
  return { members, list };
}
