import { trainingLimits } from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import type { ByteSource, Range } from '../json/byte-source.ts';

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

/** A group that is in memory, in parts. */
export function* partsOf(value: unknown, group: number): Generator<TrajectoryPart | GroupPart> {
  const trajectories = isObject(value) ? value.trajectories : undefined;
  const line = lineOfValue(value);
  // Of too many none is looked at.
  const isWhole = Array.isArray(trajectories) && trajectories.length <= trainingLimits.trajectories;
  if (!isObject(value) || !isWhole) {
    yield { type: 'group', group, value, line };
    return;
  }
  for (const [index, trajectory] of trajectories.entries())
    yield { type: 'trajectory', group, index, bytes: null, value: trajectory, line: lineOfValue(trajectory) };
  const beside: JsonObject = { ...value, trajectories: [] };
  yield { type: 'group', group, value: beside, line };
}

const lineOfValue =
  (value: unknown): LineText =>
  () => [Buffer.from(JSON.stringify(value))];

const [lineFeed, carriageReturn, space] = [0x0a, 0x0d, 0x20];

/** JSON text on one line: the line ends in it stand between its tokens, where a space does as well. */
export const lineOf =
  (text: Buffer): LineText =>
  () => [onOneLine(text)];

/** The same of a text that is not in memory. */
export function lineIn(source: ByteSource, range: Range): LineText {
  return async function* () {
    for await (const piece of source.pieces(range)) yield onOneLine(piece);
  };
}

function onOneLine(text: Buffer): Uint8Array {
  if (!text.includes(lineFeed) && !text.includes(carriageReturn)) return text;
  return text.map((byte) => (byte === lineFeed || byte === carriageReturn ? space : byte));
}
