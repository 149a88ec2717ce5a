import { trainingLimits } from '../../contract/index.ts';
import { isObject } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { invalidField, omitted, RequestValidationError } from '../errors.ts';
import type { ByteSource, Range } from '../json/byte-source.ts';
import { textWithTools } from '../json/exact-tools.ts';
import {
  containerAt,
  isEmptyList,
  keyAt,
  parseInSlices,
  parsePart,
  readJson,
  wholeBytes,
  wholeText,
} from '../json/parse.ts';
import { childrenOf, malformed, runsOf } from '../json/scanner.ts';
import { refuseUnknownFields } from '../validation.ts';

export const groupsField = 'trajectory_groups';

type Path = (string | number)[];

/** JSON text of a trajectory or group on one line. Each chunk is valid only until the next one is read. */
type LineText = () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

interface Part {
  /** Its path in the body. */
  path: Path;
  value: unknown;
  line: LineText;
}

/** `bytes`: length of the trajectory's text; null if its group was parsed as a whole. */
export type TrajectoryPart = Part & { type: 'trajectory'; bytes: number | null };

/** A group with an empty `trajectories` list, or a value that is not a group. */
export type GroupPart = Part & { type: 'group' };

/** The trajectories of each group in order, then the group. */
export type GroupParts = AsyncGenerator<TrajectoryPart | GroupPart>;

/** A body whose `trajectory_groups` are read one trajectory at a time. */
export interface GroupedBody {
  /** The body's fields. The list of groups is a placeholder that is empty only if the real list is. */
  fields: unknown;
  /** Works in time slices. */
  groups: () => GroupParts;
}

/** Largest trajectory in bytes; a trajectory is parsed in memory. */
const maxTrajectoryBytes = 64 * 1024 ** 2;

/** Largest size of a group or body without its list, in bytes. */
const maxRestBytes = 16 * 1024 ** 2;

/** Most members of a group or body. */
const maxMembers = 1000;

/**
 * Reads a body with a list of groups. Throws for invalid JSON; `groups` throws when it gets there. Of duplicate members
 * the last counts, and the text of earlier lists is not checked.
 *
 * @param known The body's fields. A long one with another name is refused without being parsed.
 */
export async function readGroupedBody(source: ByteSource, known: ReadonlySet<string>): Promise<GroupedBody> {
  const slices = new TimeSlices();
  const whole = await wholeText(source);
  const opening = await containerAt(source, whole);
  if (opening !== '{') {
    // Validation reports that it is not an object.
    const isShort = whole.end - whole.start <= wholeBytes;
    const fields = isShort ? parsePart(await source.read(whole), whole.start) : omittedAt(opening);
    return { fields, groups: () => groupsIn(source, null, slices) };
  }
  const { members, list } = await membersOf(source, whole, {
    listName: groupsField,
    path: [],
    known,
    slices,
  });
  if (list) members.set(groupsField, (await isEmptyList(source, list)) ? [] : omitted.list);
  return { fields: Object.fromEntries(members), groups: () => groupsIn(source, list, slices) };
}

/** Reads a body that is one group, one trajectory at a time in time slices. Throws for invalid JSON. */
export async function* readGroupBody(source: ByteSource): GroupParts {
  const slices = new TimeSlices();
  const whole = await wholeText(source);
  if (whole.end - whole.start > wholeBytes) return yield* largeGroup(source, whole, [], slices);
  const bytes = await source.read(whole);
  yield* partsOf(await readJson(bytes, slices), [], () => [onOneLine(bytes)]);
}

async function* groupsIn(source: ByteSource, list: Range | null, slices: TimeSlices): GroupParts {
  if (list === null) throw malformed(`${groupsField} is not a list`);
  const options = { path: [groupsField], max: trainingLimits.groups, slices };
  for await (const { path, range, bytes } of elementsOf(source, list, options))
    if (bytes) yield* partsOf(parsePart(bytes, range.start), path, () => [onOneLine(bytes)]);
    else yield* largeGroup(source, range, path, slices);
}

/** The parts of a parsed group, whose text is `line`. */
function* partsOf(value: unknown, path: Path, line: LineText): Generator<TrajectoryPart | GroupPart> {
  const trajectories = isObject(value) ? value.trajectories : undefined;
  // A list that is too long is refused as a whole, without looking at its elements.
  const isList = Array.isArray(trajectories) && trajectories.length <= trainingLimits.trajectories;
  if (!isObject(value) || !isList) {
    yield { type: 'group', path, value, line };
    return;
  }
  for (const [index, trajectory] of trajectories.entries())
    yield {
      type: 'trajectory',
      path: [...path, 'trajectories', index],
      bytes: null,
      value: trajectory,
      line: lineOfValue(trajectory),
    };
  yield { type: 'group', path, value: { ...value, trajectories: [] }, line };
}

async function* largeGroup(source: ByteSource, range: Range, path: Path, slices: TimeSlices): GroupParts {
  const line = lineIn(source, range);
  const opening = await containerAt(source, range);
  if (opening !== '{') {
    // Not a group, and too long to be shown.
    yield { type: 'group', path, value: omittedAt(opening), line };
    return;
  }
  const { members, list } = await membersOf(source, range, { listName: 'trajectories', path, slices });
  if (list) {
    members.set('trajectories', []);
    yield* trajectoriesIn(source, list, [...path, 'trajectories'], slices);
  }
  yield { type: 'group', path, value: Object.fromEntries(members), line };
}

async function* trajectoriesIn(
  source: ByteSource,
  list: Range,
  ofList: Path,
  slices: TimeSlices,
): AsyncGenerator<TrajectoryPart> {
  const options = { path: ofList, max: trainingLimits.trajectories, slices };
  for await (const { path, range, bytes: text } of elementsOf(source, list, options)) {
    const bytes = range.end - range.start;
    if (bytes > maxTrajectoryBytes)
      throw invalidField(
        path,
        `has ${bytes} bytes; a trajectory may have at most ${maxTrajectoryBytes}`,
        omittedAt(await containerAt(source, range)),
      );
    const value = text ? parsePart(text, range.start) : await parseInSlices(source, range, { slices });
    const line: LineText = text ? () => [onOneLine(text)] : lineIn(source, range);
    yield { type: 'trajectory', path, bytes, value, line };
  }
}

interface ElementsOptions {
  /** Path of the list in the body. */
  path: Path;
  /** Most elements of the list. */
  max: number;
  slices: TimeSlices;
}

/** The elements of a list, each with its path. `bytes` is the text of one that is short enough to be parsed at once, or null. */
async function* elementsOf(source: ByteSource, list: Range, { path, max, slices }: ElementsOptions) {
  let index = 0;
  for await (const run of runsOf(source, list, { whole: wholeBytes, slices })) {
    const text = run.end - run.start <= wholeBytes ? await source.read(run) : null;
    for (const range of run.children) {
      if (slices.over) await slices.pause();
      if (index >= max) throw tooMany(path, max);
      const bytes = text?.subarray(range.start - run.start, range.end - run.start);
      yield { path: [...path, index++], range, bytes };
    }
  }
}

/** The same issue as for a parsed list, but without the actual length. */
const tooMany = (path: Path, max: number) =>
  new RequestValidationError([
    {
      loc: ['body', ...path],
      msg: `has more than ${max} elements, the limit`,
      type: 'too_long',
      input: omitted.list,
      ctx: { max_length: max },
    },
  ]);

/** A placeholder of the same JSON type as a value too long to parse, so that issues about it are right. */
const omittedAt = (opening: '{' | '[' | null) =>
  opening === null ? omitted.text : opening === '[' ? omitted.list : omitted.object;

interface MembersOptions {
  /** The member that is located instead of parsed, if it is a list. */
  listName: string;
  /** Path of the object in the body. */
  path: Path;
  /** Names of the members that are read however long they are. Default: all. */
  known?: ReadonlySet<string>;
  slices: TimeSlices;
}

/** Parses the members of an object, except for one list, of which it returns the range. */
async function membersOf(
  source: ByteSource,
  range: Range,
  { listName, path, known, slices }: MembersOptions,
): Promise<{ members: Map<string, unknown>; list: Range | null }> {
  const members = new Map<string, unknown>();
  let list: Range | null = null;
  let bytes = 0;
  let count = 0;
  const refuse = (name: string[], reason: string) => invalidField([...path, ...name], reason, omitted.object);
  for await (const children of childrenOf(source, range, slices))
    for (const child of children) {
      if (!child.key) continue;
      if (child.key.end - child.key.start > maxRestBytes)
        throw refuse([], 'has a field whose name is too long');
      const name = await keyAt(source, child.key);
      if (++count > maxMembers) throw refuse([], `has more than ${maxMembers} fields`);
      if (name === listName) {
        // Of duplicate members the last counts.
        list = null;
        if ((await containerAt(source, child)) === '[') {
          members.delete(name);
          list = child;
          continue;
        }
      }
      const length = child.end - child.start;
      if (length > wholeBytes && known)
        refuseUnknownFields({ [name]: omittedAt(await containerAt(source, child)) }, known);
      bytes += length;
      if (bytes > maxRestBytes)
        throw refuse(
          [name],
          `is too long: the fields other than ${listName} may have at most ${maxRestBytes} bytes`,
        );
      members.set(name, await parseInSlices(source, child, { slices }));
    }
  return { members, list };
}

const lineOfValue =
  (value: unknown): LineText =>
  () => [Buffer.from(textWithTools(value))];

const [lineFeed, carriageReturn, space] = [0x0a, 0x0d, 0x20];

/** The text of a range on one line. */
function lineIn(source: ByteSource, range: Range): LineText {
  return async function* () {
    for await (const piece of source.pieces(range)) yield onOneLine(piece);
  };
}

/** Line breaks in JSON occur only between tokens, so a space can replace them. */
function onOneLine(text: Buffer): Uint8Array {
  if (!text.includes(lineFeed) && !text.includes(carriageReturn)) return text;
  return text.map((byte) => (byte === lineFeed || byte === carriageReturn ? space : byte));
}
