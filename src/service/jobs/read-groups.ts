import type { z } from 'zod';
import {
  historySchema,
  type ParsedTrajectory,
  trainingLimits,
  trajectoryGroupSchema,
  trajectorySchema,
  type ValidationIssue,
} from '../../contract/index.ts';
import { bodyPath } from '../../language/basics.ts';
import { isObject } from '../../util/json.ts';
import { maxIssues, RequestValidationError } from '../errors.ts';
import { isUnset, readItem } from '../validation.ts';
import { valueAt } from '../zod-issues.ts';

export const groupsField = 'trajectory_groups';

type Path = (string | number)[];

/** A part of groups, as received and, in `read`, as its schema parses it. */
type Part = {
  /** Its path in the body. */
  path: Path;
  value: unknown;
} & ({ type: 'trajectory'; read: ParsedTrajectory } | { type: 'group' });

/**
 * Validates groups, one trajectory at a time, and yields the valid parts until the first issue: the trajectories of each
 * group in order, then the group.
 * @throws RequestValidationError at the end, with the issues of all groups.
 */
export function* readGroups(groups: Iterable<{ value: unknown; path: Path }>): Generator<Part> {
  const issues: ValidationIssue[] = [];
  for (const { value, path } of groups) {
    // A list that is too long is refused as a whole, without looking at its elements.
    const trajectories = trajectoriesIn(value);
    for (const [index, trajectory] of trajectories.entries()) {
      const at = [...path, 'trajectories', index];
      const result = readItem(trajectorySchema, trajectory, ['body', ...at]);
      if ('issues' in result) issues.push(...result.issues);
      else if (issues.length === 0)
        yield { type: 'trajectory', path: at, value: trajectory, read: result.value };
      if (issues.length >= maxIssues) break;
    }
    const rest = isObject(value) && trajectories.length > 0 ? { ...value, trajectories: [] } : value;
    const result = readItem(trajectoryGroupSchema, rest, ['body', ...path]);
    if ('issues' in result) issues.push(...result.issues);
    else if (issues.length === 0) yield { type: 'group', path, value };
    if (issues.length >= maxIssues) break;
  }
  if (issues.length > 0) throw new RequestValidationError(issues.slice(0, maxIssues));
}

function trajectoriesIn(group: unknown): readonly unknown[] {
  const list = isObject(group) ? group.trajectories : undefined;
  return Array.isArray(list) && list.length <= trainingLimits.trajectories ? list : [];
}

/**
 * The parts of groups that fit their schema.
 * @throws RequestValidationError at the end, when groups do not fit their schema or have unknown fields: a rollout in a
 * format that this service does not read would silently not be trained on.
 */
export function* checkedParts(parts: Iterable<Part>): Generator<Part> {
  const unknown: ValidationIssue[] = [];
  /** Number of issues before the current group. A group's own issues are listed before its trajectories' issues. */
  let earlier = 0;
  for (const part of parts) {
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

function unknownInTrajectory(trajectory: unknown, path: Path): ValidationIssue[] {
  const histories = valueAt(trajectory, ['additional_histories']);
  return [
    ...unknownFields(trajectorySchema, trajectory, path),
    ...(Array.isArray(histories) ? histories : []).flatMap((history, index) =>
      unknownFields(historySchema, history, [...path, 'additional_histories', index]),
    ),
  ].slice(0, maxIssues);
}

function unknownFields(schema: z.ZodObject, value: unknown, path: Path): ValidationIssue[] {
  return Object.entries(isObject(value) ? value : {})
    .filter(([name, field]) => !Object.hasOwn(schema.shape, name) && !isUnset(field))
    .slice(0, maxIssues)
    .map(([name, input]) => ({
      loc: bodyPath([...path, name]),
      msg: `Extra inputs are not permitted: ${name} is unknown to this service and would not be trained on`,
      type: 'extra_forbidden',
      input,
    }));
}
