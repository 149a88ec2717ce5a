import {
  type Constraint,
  type ConstraintFields,
  contentLocation,
  type Location,
  maxConstraintLength,
  toolsJson,
} from '../../language/index.ts';
import { invalidField } from '../errors.ts';
import { valueAt } from '../zod-issues.ts';

/** Most requests have no field that may constrain a reply, and are not hashed. */
export const mayConstrain = (fields: ConstraintFields): boolean =>
  (fields.tools?.length ?? 0) > 0 ||
  fields.tool_choice !== undefined ||
  fields.response_format !== undefined ||
  fields.structured_outputs !== undefined ||
  fields.reasoning_effort !== undefined;

/**
 * Whether unconstrained replies satisfy the request: any text is allowed, or calls without a strict schema that the
 * model may begin itself.
 */
export function mayBeFree({ grammar }: Constraint, fields: ConstraintFields): boolean {
  if (limitsReasoning(fields)) return false;
  if (grammar.type === 'text') return true;
  const insists = fields.parallel_tool_calls === false || hasStrictTools(fields);
  return grammar.type === 'text_or_calls' && grammar.content.type === 'text' && !insists;
}

const hasStrictTools = ({ tools }: ConstraintFields) =>
  tools?.some((tool) => tool.function.strict === true) ?? false;

const limitsReasoning = ({ reasoning_effort: effort }: ConstraintFields) =>
  effort !== undefined && effort !== 'none';

/** The field for which replies would have to be constrained. */
export function constrainingField(fields: ConstraintFields): Location {
  const { response_format: format } = fields;
  if (fields.structured_outputs !== undefined || (format !== undefined && format.type !== 'text'))
    return contentLocation(fields);
  if (limitsReasoning(fields)) return ['reasoning_effort'];
  if (fields.tool_choice !== undefined && fields.tool_choice !== 'auto') return ['tool_choice'];
  return fields.parallel_tool_calls === false ? ['parallel_tool_calls'] : ['tools'];
}

/** Runs before anything is built from the fields: engines cannot compile longer ones quickly. */
export function refuseLongFields(fields: ConstraintFields): void {
  if (fields.tools) toolsJson(fields.tools, ['tools']);
  const { response_format, structured_outputs } = fields;
  if (JSON.stringify({ response_format, structured_outputs }).length <= maxConstraintLength) return;
  const location = contentLocation(fields);
  throw invalidField(
    location,
    `has more than ${maxConstraintLength} characters of JSON; make it smaller`,
    valueAt(fields, location),
  );
}
