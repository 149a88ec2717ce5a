import { trainingLimits } from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import type { ByteSource, Range } from '../json/byte-source.ts';

export const groupsField = 'trajectory_groups';

/** JSON text of a trajectory or group on one line. Each chunk is valid only until the next one is read. */
export type LineText = () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

interface Part {
  /** Index of the group in the list. */
  group: number;
  value: unknown;
  line: LineText;
}

/** `bytes`: length of the trajectory's text; null if its body or group was parsed as a whole. */
export type TrajectoryPart = Part & { type: 'trajectory'; index: number; bytes: number | null };

/** A group with an empty `trajectories` list, or an invalid value in the place of a group. */
export type GroupPart = Part & { type: 'group' };

/** The parts of a parsed group. */
export function* partsOf(value: unknown, group: number): Generator<TrajectoryPart | GroupPart> {
  const trajectories = isObject(value) ? value.trajectories : undefined;
  const line = lineOfValue(value);
  // A list that is too long is refused as a whole, without looking at its elements.
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

/** JSON text on one line. Line breaks in JSON occur only between tokens, so a space can replace them. */
export const lineOf =
  (text: Buffer): LineText =>
  () => [onOneLine(text)];

/** The same for text that is not in memory. */
export function lineIn(source: ByteSource, range: Range): LineText {
  return async function* () {
    for await (const piece of source.pieces(range)) yield onOneLine(piece);
  };
}

function onOneLine(text: Buffer): Uint8Array {
  if (!text.includes(lineFeed) && !text.includes(carriageReturn)) return text;
  return text.map((byte) => (byte === lineFeed || byte === carriageReturn ? space : byte));
}
