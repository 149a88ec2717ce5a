import { MartingaleError } from '../contract/basics.ts';
import type { ValidationIssue } from '../contract/index.ts';

/** Path of a value in a request: names of fields and, from 0, indices of lists. */
export type Location = (string | number)[];

/** The `loc` of a value in a body. */
export const bodyPath = (location: Location): string[] => ['body', ...location.map(String)];

/**
 * Text, messages, a template or a constraint cannot be turned into tokens, or tokens break a constraint. `issue`
 * describes the wrong field of the request; null if the error is not about one field.
 */
export class LanguageError extends MartingaleError {
  readonly issue: ValidationIssue | null;

  constructor(
    code: string,
    message: string,
    { issue = null, ...options }: ErrorOptions & { issue?: ValidationIssue | null } = {},
  ) {
    super(code, message, options);
    this.issue = issue;
  }
}

/** The error for a well-formed field that cannot be accepted. */
export const invalidField = (location: Location, message: string, value: unknown): LanguageError =>
  fieldError({ loc: bodyPath(location), msg: message, type: 'value_error', input: value });

/** The error for a field, or a value of one, that is not supported. Nothing unsupported is ignored silently. */
export const unsupportedField = (location: Location, value: unknown, message: string): LanguageError =>
  fieldError({
    loc: bodyPath(location),
    msg: message,
    type: 'unsupported_field',
    input: value,
  });

const fieldError = (issue: ValidationIssue) =>
  new LanguageError('invalid_request', `${issue.loc.join('.')}: ${issue.msg}`, { issue });
