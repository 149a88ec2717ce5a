import { TimeSlices } from '../../util/time-slices.ts';
import { readGroupBody } from '../bodies/grouped-body.ts';
import type { ByteSource } from '../json/byte-source.ts';
import type { DataFiles } from '../store/files.ts';
import type { GroupRecord } from '../store/store.ts';
import { type ChoiceContext, checkTrajectory } from './choices.ts';
import { GroupColumns } from './group-columns.ts';
import { checkedParts } from './pack-groups.ts';
import { type TrajectoryDependencies, trajectorySequences } from './sequences.ts';

interface PackGroupOptions extends Omit<TrajectoryDependencies, 'constraints'>, ChoiceContext {
  files: DataFiles;
}

type Packed = Pick<
  GroupRecord,
  'memberBytes' | 'bytes' | 'trajectories' | 'sampledTokens' | 'trainableTokens'
>;

/**
 * Reads a group that was sent by itself, one trajectory at a time, and writes the file that jobs and logs read: the group
 * as a line of JSON in a gzip member, and after it what its trajectories train on (`GroupColumns`). The caller must keep
 * or discard the file.
 * @throws RequestValidationError, ServiceError for what cannot be trained on.
 */
export async function packGroup(source: ByteSource, { files, ...context }: PackGroupOptions) {
  const { constraints } = context;
  const slices = new TimeSlices();
  const columns = new GroupColumns();
  let trajectories = 0;
  let error: unknown = null;
  // A constraint is only looked up here. Jobs get it by its hash.
  const find = async (hash: string) => ((await constraints.find(hash)) ? hash : undefined);
  const file = await files.compress(
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
            const sequences = await trajectorySequences(part.read, part.path, {
              ...context,
              constraints: { find },
            });
            columns.add({ reward: part.read.reward, sequences });
          } catch (cause) {
            error = cause;
          }
        if (slices.over) await slices.pause();
      }
      // What does not fit the schema is reported first.
      if (error !== null) throw error;
    })(),
  );
  const { sampled: sampledTokens, trainable: trainableTokens } = columns.counts;
  const memberBytes = file.bytes;
  try {
    for (const bytes of columns.toBytes()) await file.append(bytes);
  } catch (cause) {
    await file.discard();
    throw cause;
  }
  const packed: Packed = { memberBytes, bytes: file.bytes, trajectories, sampledTokens, trainableTokens };
  return { file, packed };
}

const newline = Buffer.from('\n');
