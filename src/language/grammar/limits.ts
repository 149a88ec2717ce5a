import type { Tool } from '../../contract/index.ts';
import { isDeeperThan } from '../../util/json.ts';
import { invalidField, LanguageError, type Location } from '../error.ts';

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
/** Characters of JSON of everything that constrains one reply. */
export const MAXIMUM_CONSTRAINT_LENGTH = 2 ** 20;

/** Refuses a constraint, as JSON, that is too long to compile quickly. */
export function checkLength(json: string): void {
  if (json.length > MAXIMUM_CONSTRAINT_LENGTH)
    throw new LanguageError(
      'grammar_too_large',
      `the constraint, including tools, has ${json.length} characters of JSON; the maximum is ${MAXIMUM_CONSTRAINT_LENGTH}: send fewer tools or smaller schemas`,
    );
}

/** The JSON of tools. Refuses tools that are longer together, including descriptions, than a constraint may be. */
export function toolsJson(tools: readonly Tool[], location: Location): string {
  const json = JSON.stringify(tools);
  if (json.length <= MAXIMUM_CONSTRAINT_LENGTH) return json;
  throw invalidField(
    location,
    `have more than ${MAXIMUM_CONSTRAINT_LENGTH} characters of JSON in total; send fewer or shorter tools`,
    tools,
  );
}

/** Refuses data that is nested too deep for the call stack. */
export function checkDepth(data: unknown): void {
  if (isDeeperThan(data, MAXIMUM_JSON_DEPTH))
    throw new LanguageError(
      'grammar_too_large',
      `the constraint is nested more than ${MAXIMUM_JSON_DEPTH} deep: define its parts once and refer to them ($ref)`,
    );
}
