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
import type { GroupedBody, GroupPart, GroupParts, TrajectoryPart } from '../bodies/grouped-body.ts';
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
 * The caller must keep or discard the `file`. `packed`: what the file holds. `error`: the first error of a choice that
 * cannot be trained on, or null.
 * @throws RequestValidationError, as `checkedParts` does.
 */
export async function packGroups(
  body: GroupedBody,
  { files, context }: PackGroupsOptions,
): Promise<{ file: IncomingFile; packed: PackedTrajectories; error: unknown }> {
  const slices = new TimeSlices();
  let error: unknown = null;
  const packed = new PackedTrajectories();
  const file = await files.compress(
    (async function* () {
      for await (const part of checkedParts(body.groups())) {
        if (part.type === 'group') {
          packed.add(null);
          yield endOfGroup;
          continue;
        }
        if (context && error === null)
          await checkTrajectory(part.read, part.path, context).catch((cause: unknown) => {
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
    })(),
  );
  return { file, packed, error };
}

/**
 * The parts of groups that fit their schema.
 * @throws RequestValidationError at the end, when groups do not fit their schema or have unknown fields: a rollout in a
 * format that this service does not read would silently not be trained on.
 */
export async function* checkedParts(parts: GroupParts): AsyncGenerator<ReadPart> {
  const unknown: ValidationIssue[] = [];
  /** Number of issues before the current group. A group's own issues are listed before its trajectories' issues. */
  let earlier = 0;
  for await (const part of readGroups(parts)) {
    const { path, value } = part;
    if (unknown.length < maxIssues) {
      if (part.type === 'group')
        unknown.splice(earlier, 0, ...unknownFields(trajectoryGroupSchema, value, path));
      else unknown.push(...unknownInTrajectory(value, path));
    }
    if (part.type === 'group') earlier = unknown.length;
    yield part;
  }
  if (unknown.length > 0) throw new RequestValidationError(unknown.slice(0, maxIssues));
}

/** A payload has a line for each trajectory, and an empty line after each group. */
const newline = Buffer.from('\n');
const endOfGroup = newline;

/** A part of groups: as received and, in `read`, as its schema parses it. */
type ReadPart =
  | (TrajectoryPart & { read: ParsedTrajectory })
  | (GroupPart & { read: z.output<typeof trajectoryGroupSchema> });

/**
 * Validates groups, one trajectory at a time, and yields the valid parts until the first issue. Issues of
 * all groups are thrown together at the end.
 */
export async function* readGroups(parts: GroupParts): AsyncGenerator<ReadPart> {
  const slices = new TimeSlices();
  const issues: ValidationIssue[] = [];
  for await (const part of parts) {
    const at = ['body', ...part.path];
    if (part.type === 'trajectory') {
      const { bytes } = part;
      const result = await readTrajectory(part.value, at, { bytes, slices });
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
