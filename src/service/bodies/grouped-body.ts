import { trainingLimits } from '../../contract/index.ts';
import { isObject } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { invalidField, omitted, RequestValidationError } from '../errors.ts';
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
import { type BodyBytes, contentOf } from './bodies.ts';
import { type GroupPart, groupsField, lineIn, lineOf, partsOf, type TrajectoryPart } from './group-parts.ts';
import { readJson } from './json-body.ts';

/** A body whose `trajectory_groups` are read one trajectory at a time. */
export interface GroupedBody {
  /**
   * The body's fields. If the body was not parsed as a whole, the list of groups is a placeholder that is
   * empty only if the real list is.
   */
  fields: unknown;
  /** The trajectories of each group in order, then the group. Works in time slices. */
  groups: () => AsyncGenerator<TrajectoryPart | GroupPart>;
}

/**
 * Reads a body with a list of groups. Throws for invalid JSON; for a list in a file, `groups` throws when
 * it gets there. Of duplicate members the last counts.
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

/** Largest trajectory in bytes; a trajectory is parsed in memory. */
export const largestTrajectory = 64 * 1024 ** 2;

/** Largest size of a group or body without its list, in bytes. */
export const largestBeside = 16 * 1024 ** 2;

/** Most members of a group or body. */
const mostMembers = 1000;

export interface GroupedFile {
  fields: unknown;
  list: Range | null;
}

/** Parses the fields of a body in a file and finds its list of groups. */
export async function openGroupedFile(
  source: ByteSource,
  known: ReadonlySet<string>,
  slices: TimeSlices,
): Promise<GroupedFile> {
  const whole = await wholeText(source);
  if (whole.start === whole.end) throw malformed('Unexpected end of JSON input');
  const opening = await containerAt(source, whole);
  // Validation then reports that it is not an object.
  if (opening !== '{') return { fields: omittedAt(opening), list: null };
  const { members, list } = await membersOf(source, whole, {
    listName: groupsField,
    at: [],
    slices,
    // An unknown field is refused by its name, so a long value is not parsed.
    passes: (name) => !known.has(name),
  });
  const fields = Object.fromEntries(members);
  if (list === null) return { fields, list };
  const isEmpty = (await childrenOf(source, list, slices).next()).done === true;
  return { fields: { ...fields, [groupsField]: isEmpty ? [] : omitted.list }, list };
}

/** The groups of a list in a file, part by part. */
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
    // Not a group, and too long to be shown.
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

/** The same issue as for a list in memory, but without the actual length. */
const tooMany = (place: (string | number)[], maximum: number) =>
  new RequestValidationError([
    {
      ...{ loc: ['body', ...place], type: 'too_long', input: omitted.list, ctx: { max_length: maximum } },
      msg: `has more than ${maximum} elements, and ${maximum} is the most; send fewer`,
    },
  ]);

/** A placeholder of the same JSON type as a value too long to parse, so that issues about it are right. */
const omittedAt = (opening: '{' | '[' | null) =>
  opening === null ? omitted.text : opening === '[' ? omitted.list : omitted.object;

interface MembersOptions {
  /** The member that is located instead of parsed, if it is a list. */
  listName: string;
  /** Location of the object, for issues. */
  at: (string | number)[];
  slices: TimeSlices;
  /** Whether a long member of this name is skipped. */
  passes: (name: string) => boolean;
}

/** Parses the members of an object, except for one list, of which it returns the range. */
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
      // A duplicate member: the earlier list is dropped, but its text must still be valid JSON.
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
