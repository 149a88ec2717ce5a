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
import { valueAt } from '../zod-issues.ts';
import { type ChoiceContext, checkTrajectory } from './choices.ts';
import { PackedTrajectories } from './packed-trajectories.ts';
import { readTrajectory } from './read-trajectory.ts';

interface PackGroupsOptions {
  files: DataFiles;
  /** What choices are checked against; null skips the check, when there is no model to train. */
  context: (Omit<ChoiceContext, 'engine'> & { engine: Engine }) | null;
}

/**
 * Reads the groups of a job's request once, one trajectory at a time: checks each and packs it into the job's payload.
 * The caller must keep or discard the `file`. `packed`: what the file holds. `error`: the first error of a choice that cannot be trained on, or null.
 * @throws RequestValidationError when groups do not fit their schema or have unknown fields: a rollout in a format that
 * this service does not read would silently not be trained on.
 */
export async function packGroups(
  body: GroupedBody,
  { files, context }: PackGroupsOptions,
): Promise<{ file: IncomingFile; packed: PackedTrajectories; error: unknown }> {
  const slices = new TimeSlices();
  const unknown: ValidationIssue[] = [];
  /** Number of issues before the current group. A group's own issues are listed before its trajectories' issues. */
  let earlier = 0;
  let error: unknown = null;
  const packed = new PackedTrajectories();
  const file = await files.compress(
    (async function* () {
      for await (const part of readGroups(body)) {
        const path = [groupsField, part.group];
        const { length } = unknown;
        if (part.type === 'group') {
          if (length < maxIssues)
            unknown.splice(earlier, 0, ...unknownFields(trajectoryGroupSchema, part.value, path));
          earlier = unknown.length;
          packed.add(null);
          yield endOfGroup;
          continue;
        }
        path.push('trajectories', part.index);
        if (length < maxIssues) unknown.push(...unknownInTrajectory(part.value, path));
        if (context && error === null)
          await checkTrajectory(part.read, path, context).catch((cause: unknown) => {
            error = cause;
          });
        packed.add(part.read);
        for await (const piece of part.line()) {
          packed.weigh(piece.length);
          yield piece;
        }
        yield newline;
        if (slices.over) await slices.pause();
      }
      if (unknown.length > 0) throw new RequestValidationError(unknown.slice(0, maxIssues));
    })(),
  );
  return { file, packed, error };
}

/** A payload has a line for each trajectory, and an empty line after each group. */
const newline = Buffer.from('\n');
const endOfGroup = newline;

/** A part of a body's groups: as received and, in `read`, as its schema parses it. */
type ReadPart =
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

function unknownInTrajectory(trajectory: unknown, path: (string | number)[]): ValidationIssue[] {
  const histories = valueAt(trajectory, ['additional_histories']);
  return [
    ...unknownFields(trajectorySchema, trajectory, path),
    ...(Array.isArray(histories) ? histories : []).flatMap((history, index) =>
      unknownFields(historySchema, history, [...path, 'additional_histories', index]),
    ),
  ];
}

function unknownFields(schema: z.ZodObject, value: unknown, path: (string | number)[]): ValidationIssue[] {
  return Object.entries(isObject(value) ? value : {})
    .filter(([name, field]) => !Object.hasOwn(schema.shape, name) && !isUnset(field))
    .map(([name, input]) => ({
      loc: ['body', ...path, name],
      msg: `Extra inputs are not permitted: ${name} is unknown to this service and would not be trained on`,
      type: 'extra_forbidden',
      input,
    }));
}
