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
import {
  type GroupedBody,
  type GroupPart,
  groupsField,
  type TrajectoryPart,
} from '../bodies/grouped-body.ts';
import { maxIssues, RequestValidationError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import { isUnset, readItem } from '../validation.ts';
import { type ChoiceSurroundings, checkTrajectory } from './choices.ts';
import { readTrajectory } from './read-trajectory.ts';

interface PackedGroups {
  /** The payload of the job. The caller must keep or discard it. */
  file: IncomingFile;
  /** The first error of a choice that cannot be trained on, or null. */
  complaint: unknown;
}

interface PackGroupsOptions {
  files: DataFiles;
  /** What choices are checked against; null skips the check, when there is no model to train. */
  surroundings: (Omit<ChoiceSurroundings, 'engine'> & { engine: Engine }) | null;
}

/**
 * Reads the groups of a job's request once, one trajectory at a time: checks each and packs it into the job's payload.
 * @throws RequestValidationError when groups do not fit their schema.
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

/** A payload has a line for each trajectory, and an empty line after each group. */
const newline = Buffer.from('\n');
const endOfGroup = newline;

/** A part of a body's groups: as received and, in `read`, as its schema parses it. */
export type ReadPart =
  | (TrajectoryPart & { read: ParsedTrajectory })
  | (GroupPart & { read: z.output<typeof trajectoryGroupSchema> });

/**
 * Validates the groups of a body, one trajectory at a time, and yields the valid parts until the first issue. Issues of
 * all groups are thrown together at the end.
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
    if (issues.length >= maxIssues) break;
    if (slices.over) await slices.pause();
  }
  if (issues.length > 0) throw new RequestValidationError(issues.slice(0, maxIssues));
}

const groupFields = new Set(Object.keys(trajectoryGroupSchema.shape));
const trajectoryFields = new Set(Object.keys(trajectorySchema.shape));
const historyFields = new Set(Object.keys(historySchema.shape));

/**
 * Refuses unknown fields in the groups of a training job, such as rollouts in a format that this service does not read:
 * they would silently not be trained on.
 */
class UnknownTrajectoryFields {
  readonly #issues: ValidationIssue[] = [];
  /** Issues of the current group's trajectories. They are listed after the issues of the group itself. */
  #inGroup: ValidationIssue[] = [];

  /** Checks a part that fits its schema. */
  check(part: GroupPart | TrajectoryPart): void {
    if (this.#issues.length + this.#inGroup.length >= maxIssues) return;
    const at = ['body', groupsField, part.group];
    if (part.type === 'trajectory') {
      this.#inGroup.push(...unknownInTrajectory(part.value, [...at, 'trajectories', part.index]));
      return;
    }
    this.#issues.push(...unknownIn(part.value, groupFields, at), ...this.#inGroup);
    this.#inGroup = [];
  }

  /** Throws the issues, if there are any. */
  refuse(): void {
    const issues = [...this.#issues, ...this.#inGroup];
    if (issues.length > 0) throw new RequestValidationError(issues.slice(0, maxIssues));
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
    .filter(([name, given]) => !known.has(name) && !isUnset(given))
    .map(([name, given]) => ({
      loc: [...at, name],
      msg: `Extra inputs are not permitted: ${name} is unknown to this service and would not be trained on`,
      type: 'extra_forbidden',
      input: given,
    }));
}
