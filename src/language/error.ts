import { MartingaleError, type ValidationIssue } from '../contract/index.ts';

/** Where something stands in a request: names of fields and, from 0, positions in lists. */
export type Location = (string | number)[];

/**
 * Text, messages, a template or a constraint that cannot be turned into tokens, or tokens that break a constraint.
 * `issue` describes the field of the request that is wrong; null: the error is not about one field.
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

/** A field that is well-formed but cannot be accepted. */
export const invalidField = (location: Location, message: string, value: unknown): LanguageError =>
  fieldError({ loc: ['body', ...location], msg: message, type: 'value_error', input: value });

/** A field, or a value of one, that is not supported. Nothing unsupported is ignored silently. */
export const unsupportedField = (location: Location, value: unknown, message: string): LanguageError =>
  fieldError({ loc: ['body', ...location], msg: message, type: 'unsupported_field', input: value });

const fieldError = (issue: ValidationIssue) =>
  new LanguageError('invalid_request', `${issue.loc.join('.')}: ${issue.msg}`, { issue });

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
