import {
  historySchema,
  trajectoryGroupSchema,
  trajectorySchema,
  type ValidationIssue,
} from '../../contract/index.ts';
import { isObject } from '../../util/json.ts';
import { type GroupPart, groupsField, type TrajectoryPart } from '../bodies/group-parts.ts';
import { asksForNothing } from '../body.ts';
import { RequestValidationError } from '../errors.ts';
import { largestIssueCount } from '../validation.ts';

const groupFields = new Set(Object.keys(trajectoryGroupSchema.shape));
const trajectoryFields = new Set(Object.keys(trajectorySchema.shape));
const historyFields = new Set(Object.keys(historySchema.shape));

/**
 * Refuses what stands in the groups of a training job and is no field of theirs, such as rollouts in a form that this
 * service does not read: it would not be trained on, and nobody would know.
 */
export class UnknownTrajectoryFields {
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
