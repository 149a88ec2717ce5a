import type { ParsedTrajectory } from '../../contract/index.ts';
import { byteLines } from '../../util/json-lines.ts';
import type { TimeSlices } from '../../util/time-slices.ts';
import { RequestValidationError } from '../errors.ts';
import { MemorySource } from '../json/byte-source.ts';
import { parseInSlices } from '../json/parse.ts';
import { readTrajectory } from './read-trajectory.ts';

/** The trajectories that `packGroups` packed, in order; null where a group ends. */
export async function* packedTrajectories(
  payload: AsyncIterable<Uint8Array>,
  slices: TimeSlices,
): AsyncGenerator<ParsedTrajectory | null> {
  for await (const { bytes, number } of byteLines(payload)) {
    if (bytes.length === 0) {
      yield null;
      continue;
    }
    const range = { start: 0, end: bytes.length };
    const value = await parseInSlices(new MemorySource(bytes), range, { slices });
    const result = await readTrajectory(value, [`line ${number}`], { bytes: bytes.length, slices });
    if ('issues' in result) throw new RequestValidationError(result.issues);
    yield result.value;
  }
}
