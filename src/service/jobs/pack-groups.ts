import type { z } from 'zod';
import {
  historySchema,
  type ParsedTrajectory,
  trajectoryGroupSchema,
  trajectorySchema,
  type ValidationIssue,
} from '../../contract/index.ts';
import type { Engine } from '../../engines/engine.ts';
import { isObject } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { type GroupPart, groupsField, type TrajectoryPart } from '../bodies/group-parts.ts';
import type { GroupedBody } from '../bodies/grouped-body.ts';
import { RequestValidationError } from '../errors.ts';
import { largestIssueCount } from '../shown-issue.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import { asksForNothing, readItem } from '../validation.ts';
import { type ChoiceSurroundings, checkTrajectory } from './choices.ts';
import { readTrajectory } from './read-trajectory.ts';

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

/** A part of a body's groups as it came and, in `read`, as its schema reads it. */
export type ReadPart =
  | (TrajectoryPart & { read: ParsedTrajectory })
  | (GroupPart & { read: z.output<typeof trajectoryGroupSchema> });

/**
 * Holds the groups of a body against their schema, one trajectory at a time. What is wrong is said of all of them
 * together, when they have been read; from the first complaint on nothing is given any more.
 */
export async function* readGroups({ groups }: GroupedBody): AsyncGenerator<ReadPart> {
  const slices = new TimeSlices();
  const issues: ValidationIssue[] = [];
  for await (const part of groups()) {
    const at = ['body', groupsField, part.group];
    const { bytes } = part.type === 'trajectory' ? part : { bytes: null };
    if (part.type === 'trajectory') {
      const result = await readTrajectory(part.value, [...at, 'trajectories', part.index], { bytes, slices });
      if ('issues' in result) issues.push(...result.issues);
      else if (issues.length === 0) yield { ...part, read: result.value };
    } else {
      const result = readItem(trajectoryGroupSchema, part.value, at);
      if ('issues' in result) issues.push(...result.issues);
      else if (issues.length === 0) yield { ...part, read: result.value };
    }
    if (issues.length >= largestIssueCount) break;
    if (slices.over) await slices.pause();
  }
  if (issues.length > 0) throw new RequestValidationError(issues.slice(0, largestIssueCount));
}

const groupFields = new Set(Object.keys(trajectoryGroupSchema.shape));
const trajectoryFields = new Set(Object.keys(trajectorySchema.shape));
const historyFields = new Set(Object.keys(historySchema.shape));

/**
 * Refuses what stands in the groups of a training job and is no field of theirs, such as rollouts in a form that this
 * service does not read: it would not be trained on, and nobody would know.
 */
class UnknownTrajectoryFields {
  readonly #issues: ValidationIssue[] = [];
  /** Of the trajectories of a group that has not ended: what is wrong with the group itself comes before them. */
  #inGroup: ValidationIssue[] = [];

  /** Looks at a part of a group that has been held against its schema. */
  check(part: GroupPart | TrajectoryPart): void {
    if (this.#issues.length + this.#inGroup.length >= largestIssueCount) return;
    const at = ['body', groupsField, part.group];
    if (part.type === 'trajectory') {
      this.#inGroup.push(...unknownInTrajectory(part.value, [...at, 'trajectories', part.index]));
      return;
    }
    this.#issues.push(...unknownIn(part.value, groupFields, at), ...this.#inGroup);
    this.#inGroup = [];
  }

  /** Throws where something was found. */
  refuse(): void {
    const issues = [...this.#issues, ...this.#inGroup];
    if (issues.length > 0) throw new RequestValidationError(issues.slice(0, largestIssueCount));
  }
}

function unknownInTrajectory(trajectory: unknown, place: (string | number)[]): ValidationIssue[] {
  const histories = isObject(trajectory) ? trajectory.additional_histories : undefined;
  return [
    ...unknownIn(trajectory, trajectoryFields, place),
    ...(Array.isArray(histories) ? histories : []).flatMap((history, index) =>
      unknownIn(history, historyFields, [...place, 'additional_histories', index]),
    ),
  ];
}

function unknownIn(value: unknown, known: ReadonlySet<string>, at: (string | number)[]): ValidationIssue[] {
  if (!isObject(value)) return [];
  return Object.entries(value)
    .filter(([name, given]) => !known.has(name) && !asksForNothing(given))
    .map(([name, given]) => ({
      loc: [...at, name],
      msg: `Extra inputs are not permitted: ${name} is not read here, so that it could not train`,
      type: 'extra_forbidden',
      input: given,
    }));
}
