import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { TimeSlices } from '../../util/time-slices.ts';
import { readGroupBody } from '../bodies/grouped-body.ts';
import type { ByteSource } from '../json/byte-source.ts';
import type { GroupRecord } from '../store/store.ts';
import { type ChoiceContext, checkTrajectory } from './choices.ts';
import { GroupColumns } from './group-columns.ts';
import { checkedParts } from './pack-groups.ts';
import { type TrajectoryDependencies, trajectorySequences } from './sequences.ts';

/** What the choices of a group are checked against, and rendered with. */
export type PackGroupContext = ChoiceContext & Pick<TrajectoryDependencies, 'tools'>;

/** A group as its file has it. */
export interface PackedGroup
  extends Pick<GroupRecord, 'memberBytes' | 'bytes' | 'trajectories' | 'sampledTokens' | 'trainableTokens'> {
  /** The group as a line of JSON in a gzip member, then what its trajectories train on (`GroupColumns`). */
  content: Uint8Array<ArrayBuffer>;
}

/**
 * Reads a group that was sent by itself, one trajectory at a time in time slices.
 * @throws RequestValidationError, ServiceError or LanguageError for what cannot be trained on.
 */
export async function packGroup(source: ByteSource, context: PackGroupContext): Promise<PackedGroup> {
  const slices = new TimeSlices();
  const columns = new GroupColumns();
  let trajectories = 0;
  let error: unknown = null;
  // Jobs get a constraint by its hash.
  const constraints = {
    find: async (hash: string) => ((await context.constraints.find(hash)) ? hash : undefined),
  };
  const pieces: Uint8Array[] = [];
  await pipeline(
    (async function* () {
      for await (const part of checkedParts(readGroupBody(source))) {
        if (part.type === 'group') {
          yield* part.line();
          yield newline;
          continue;
        }
        trajectories++;
        if (error === null)
          try {
            await checkTrajectory(part.read, part.path, context);
            const sequences = await trajectorySequences(part.read, part.path, { ...context, constraints });
            columns.add({ reward: part.read.reward, sequences });
          } catch (cause) {
            error = cause;
          }
        if (slices.over) await slices.pause();
      }
      // What does not fit the schema is reported first.
      if (error !== null) throw error;
    })(),
    createGzip({ level: 1 }),
    async (compressed: AsyncIterable<Buffer>) => {
      for await (const piece of compressed) pieces.push(piece);
    },
  );
  const memberBytes = bytesOf(pieces);
  pieces.push(...columns.toBytes());
  const content = new Uint8Array(bytesOf(pieces));
  let at = 0;
  for (const piece of pieces) {
    content.set(piece, at);
    at += piece.length;
  }
  const { sampled: sampledTokens, trainable: trainableTokens } = columns.counts;
  return { content, memberBytes, bytes: at, trajectories, sampledTokens, trainableTokens };
}

const bytesOf = (pieces: readonly Uint8Array[]) => pieces.reduce((sum, { length }) => sum + length, 0);

const newline = Buffer.from('\n');
