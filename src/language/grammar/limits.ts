import type { Tool } from '../../contract/index.ts';
import { exactText } from '../../util/exact-json.ts';
import { isDeeperThan } from '../../util/json.ts';
import { invalidField, LanguageError, type Location } from '../error.ts';

/** Counted repetitions are unrolled, so their number is limited. */
export const maxRepetitions = 10_000;
/** Characters of a grammar or a regular expression. The automaton has about one node per character. */
export const maxSourceLength = 200_000;
/** Nesting depth of groups, limited by the call stack. */
export const maxDepth = 200;
/** Nesting depth of arrays and objects in a whole constraint. */
const maxJsonDepth = 400;
/** Nesting depth of schemas, including those that references lead to. */
export const maxSchemaDepth = 1_000;
/** Characters of JSON of everything that constrains one reply. */
export const maxConstraintLength = 2 ** 20;

/** Refuses a constraint, as JSON, that is too long to compile quickly. */
export function checkLength(json: string): void {
  if (json.length > maxConstraintLength)
    throw new LanguageError(
      'grammar_too_large',
      `The constraint, including tools, has ${json.length} characters of JSON. The maximum is ${maxConstraintLength}. Send fewer tools or smaller schemas.`,
    );
}

/** The JSON of tools. Refuses tools that are longer together, including descriptions, than a constraint may be. */
export function toolsJson(tools: readonly Tool[], location: Location): string {
  const json = exactText(tools);
  if (json.length <= maxConstraintLength) return json;
  throw invalidField(
    location,
    `have more than ${maxConstraintLength} characters of JSON in total; send fewer or shorter tools`,
    tools,
  );
}

/** Refuses data that is nested too deep for the call stack. */
export function checkDepth(data: unknown): void {
  if (isDeeperThan(data, maxJsonDepth))
    throw new LanguageError(
      'grammar_too_large',
      `The constraint is nested more than ${maxJsonDepth} deep. Define its parts once and refer to them ($ref).`,
    );
}
