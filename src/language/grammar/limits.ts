import { LanguageError } from '../error.ts';

/** Counted repetitions are unrolled, so their number is limited. */
export const MAXIMUM_REPETITIONS = 10_000;
/** Characters of a grammar or a regular expression. The automaton has about one node per character. */
export const MAXIMUM_SOURCE_LENGTH = 200_000;
/** Nesting depth of groups, limited by the call stack. */
export const MAXIMUM_DEPTH = 200;
/** Nesting depth of arrays and objects in a whole constraint. */
const MAXIMUM_JSON_DEPTH = 400;
/** Nesting depth of schemas, including those that references lead to. */
export const MAXIMUM_SCHEMA_DEPTH = 1_000;
/** Characters of a constraint's JSON. */
const MAXIMUM_CONSTRAINT_LENGTH = 1 << 20;

/** Refuses a constraint, as JSON, that is too long to compile quickly. */
export function checkLength(json: string): void {
  if (json.length > MAXIMUM_CONSTRAINT_LENGTH)
    throw new LanguageError(
      'grammar_too_large',
      `the constraint has ${json.length} characters of JSON, tools and all, and ${MAXIMUM_CONSTRAINT_LENGTH} is the most: give fewer tools or smaller schemas`,
    );
}

/** Refuses data that is nested too deep for the call stack. */
export function checkDepth(data: unknown): void {
  let level: unknown[] = [data];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAXIMUM_JSON_DEPTH)
      throw new LanguageError(
        'grammar_too_large',
        `the constraint is nested more than ${MAXIMUM_JSON_DEPTH} deep: define its parts once and refer to them ($ref)`,
      );
    level = level.flatMap((value) =>
      typeof value === 'object' && value !== null ? Object.values(value) : [],
    );
  }
}
