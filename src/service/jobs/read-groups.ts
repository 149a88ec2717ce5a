import type { z } from 'zod';
import { type ParsedTrajectory, trajectoryGroupSchema, type ValidationIssue } from '../../contract/index.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { type GroupPart, groupsField, type TrajectoryPart } from '../bodies/group-parts.ts';
import type { GroupedBody } from '../bodies/grouped-body.ts';
import { RequestValidationError } from '../errors.ts';
import { largestIssueCount, readItem } from '../validation.ts';
import { readTrajectory } from './read-trajectory.ts';

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
