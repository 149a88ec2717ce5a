import type { ParsedTrajectory } from '../../contract/index.ts';
import { joined } from '../../util/joined.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { type TextKind, withoutMark } from '../json/read-text.ts';
import type { GroupRecord } from '../store/store.ts';
import { type ChoiceContext, checkTrajectory } from './choices.ts';
import { GroupColumns } from './group-columns.ts';
import { gzip } from './gzip.ts';
import { checkedParts, readGroups } from './read-groups.ts';
import { maxRepeatedTokens, type TrajectoryDependencies, trajectorySequences } from './sequences.ts';

/** What the choices of a group are checked against, and rendered with. */
export type PackGroupContext = ChoiceContext & Pick<TrajectoryDependencies, 'tools'>;

/** A group as its file has it. */
export interface PackedGroup
  extends Pick<GroupRecord, 'memberBytes' | 'bytes' | 'trajectories' | 'sampledTokens' | 'trainableTokens'> {
  /** The group as a line of JSON in a gzip member, then what its trajectories train on (`GroupColumns`). */
  content: Uint8Array<ArrayBuffer>;
}

/** A body that is one group: its trajectories. */
export const groupText: TextKind<ParsedTrajectory[]> = {
  name: 'group',
  maxValues: Number.POSITIVE_INFINITY,
  validate(value) {
    const parts = [...checkedParts(readGroups([{ value, path: [] }]))];
    return parts.flatMap((part) => (part.type === 'trajectory' ? part.read : []));
  },
};

/**
 * Turns a group that was sent by itself into what is kept of it.
 * @param content The text that `trajectories` were read from.
 * @throws RequestValidationError, ServiceError or LanguageError for what cannot be trained on.
 */
export async function packGroup(
  content: Buffer,
  trajectories: readonly ParsedTrajectory[],
  context: PackGroupContext,
): Promise<PackedGroup> {
  const slices = new TimeSlices();
  const columns = new GroupColumns();
  // Jobs get a constraint by its hash.
  const constraints = {
    find: async (hash: string) => ((await context.constraints.find(hash)) ? hash : undefined),
  };
  const room = { tokens: maxRepeatedTokens };
  for (const [index, trajectory] of trajectories.entries()) {
    const path = ['trajectories', index];
    await checkTrajectory(trajectory, path, { ...context, takesAdded: true });
    const sequences = await trajectorySequences(trajectory, path, { ...context, constraints, room });
    columns.add({ reward: trajectory.reward, sequences });
    if (slices.over) await slices.pause();
  }
  const member = await gzip(onOneLine(withoutMark(content)));
  const whole = joined([member, ...columns.toBytes()]);
  const { sampled: sampledTokens, trainable: trainableTokens } = columns.counts;
  return {
    content: whole,
    memberBytes: member.length,
    bytes: whole.length,
    trajectories: trajectories.length,
    sampledTokens,
    trainableTokens,
  };
}

const pieceBytes = 131_072;
const [lineFeed, carriageReturn, space] = [0x0a, 0x0d, 0x20];

/** Line breaks in JSON occur only between tokens, so a space can replace them. */
async function* onOneLine(text: Buffer): AsyncGenerator<string | Uint8Array> {
  for (let at = 0; at < text.length; at += pieceBytes)
    yield text
      .subarray(at, at + pieceBytes)
      .map((byte) => (byte === lineFeed || byte === carriageReturn ? space : byte));
  yield '\n';
}
