import type { Engine } from '../../engines/engine.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { groupsField } from '../bodies/group-parts.ts';
import type { GroupedBody } from '../bodies/grouped-body.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import { type ChoiceSurroundings, checkTrajectory } from './check-choice.ts';
import { readGroups } from './read-groups.ts';
import { UnknownTrajectoryFields } from './trajectory-fields.ts';

export interface PackedGroups {
  /** The payload of the job; whoever has it keeps or discards it. */
  file: IncomingFile;
  /** Why a choice cannot be trained on: what was found first, or null. */
  complaint: unknown;
}

export interface PackGroupsOptions {
  files: DataFiles;
  /** What choices are held against; null where there is no model to train, so that they need not be. */
  surroundings: (Omit<ChoiceSurroundings, 'engine'> & { engine: Engine }) | null;
}

/**
 * Reads the groups of a request for a job once, trajectory by trajectory: checks each, and packs it for the run of the
 * job. Throws what is wrong with their form.
 */
export async function packGroups(
  body: GroupedBody,
  { files, surroundings }: PackGroupsOptions,
): Promise<PackedGroups> {
  const unknown = new UnknownTrajectoryFields();
  const slices = new TimeSlices();
  let complaint: unknown = null;
  const file = await files.compress(
    (async function* () {
      for await (const part of readGroups(body)) {
        unknown.check(part);
        if (part.type === 'group') {
          yield endOfGroup;
          continue;
        }
        const place = [groupsField, part.group, 'trajectories', part.index];
        if (surroundings && complaint === null)
          await checkTrajectory(part.read, place, surroundings).catch((error: unknown) => {
            complaint = error;
          });
        yield* part.line();
        yield newline;
        if (slices.over) await slices.pause();
      }
    })(),
  );
  try {
    unknown.refuse();
  } catch (error) {
    await file.discard();
    throw error;
  }
  return { file, complaint };
}

/** A payload is a line for each trajectory, and an empty line behind the last of each group. */
const newline = Buffer.from('\n');
const endOfGroup = newline;
