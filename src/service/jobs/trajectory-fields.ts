import {
  historySchema,
  trajectoryGroupSchema,
  trajectorySchema,
  type ValidationIssue,
} from '../../contract/index.ts';
import { asksForNothing, isObject } from '../body.ts';
import { RequestValidationError } from '../errors.ts';

const groupFields = new Set(Object.keys(trajectoryGroupSchema.shape));
const trajectoryFields = new Set(Object.keys(trajectorySchema.shape));
const historyFields = new Set(Object.keys(historySchema.shape));

/**
 * Refuses what stands in the groups of a training job and is no field of theirs, such as rollouts in a form that this
 * service does not read: it would not be trained on, and nobody would know. The groups have been validated.
 */
export function refuseUnknownTrajectoryFields(groups: readonly unknown[]): void {
  const issues: ValidationIssue[] = [];
  const check = (value: unknown, known: ReadonlySet<string>, at: (string | number)[]) => {
    if (!isObject(value)) return;
    for (const [name, given] of Object.entries(value))
      if (!known.has(name) && !asksForNothing(given))
        issues.push({
          loc: [...at, name],
          msg: `Extra inputs are not permitted: ${name} is not read here, so that it could not train`,
          type: 'extra_forbidden',
        });
  };
  for (const [index, group] of groups.entries()) {
    const at = ['body', 'trajectory_groups', index];
    check(group, groupFields, at);
    for (const [position, trajectory] of listIn(group, 'trajectories').entries()) {
      const place = [...at, 'trajectories', position];
      check(trajectory, trajectoryFields, place);
      for (const [number, history] of listIn(trajectory, 'additional_histories').entries())
        check(history, historyFields, [...place, 'additional_histories', number]);
    }
  }
  if (issues.length > 0) throw new RequestValidationError(issues.slice(0, 100));
}

function listIn(value: unknown, name: string): unknown[] {
  const list = isObject(value) ? value[name] : undefined;
  return Array.isArray(list) ? list : [];
}
