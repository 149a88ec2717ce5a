import { isObject } from '../../../util/json.ts';
import { anyOf, type Expression, NOTHING } from '../expression.ts';
import { plainSpelling } from '../regex.ts';
import { regularExpression, regularStates } from '../regular.ts';
import { arrayWithin } from './array.ts';
import type { Conjunction } from './conjunction.ts';
import { anyDistinctNumber, anyFraction, anyInteger, anyNumber } from './decimals.ts';
import { excludesIntegers } from './negation.ts';
import { numberWithin } from './number.ts';
import { objectWithin } from './object.ts';
import type { SchemaScope } from './scope.ts';
import { stringWithin } from './string-schema.ts';
import { constantsIn, isOfType } from './types.ts';

/** The values of a type that match all schemas. */
export function valuesOfType(type: string, all: Conjunction, scope: SchemaScope): Expression {
  const excluded = all.values('not').flatMap((not) => (isObject(not) ? (constantsIn(not) ?? []) : []));
  switch (type) {
    case 'string':
      return stringWithin(all, scope);
    case 'object':
      checkExcluded(all, excluded, type);
      return objectWithin(all, scope);
    case 'array':
      checkExcluded(all, excluded, type);
      return arrayWithin(all, scope);
    case 'number':
    case 'integer':
      checkExcluded(all, excluded, type);
      return (
        writtenNumbers(numberWithin(all, type), all, scope) ??
        scope.nothing(all, all.has('minimum') ? 'minimum' : 'maximum', 'allows no number')
      );
    case 'boolean':
      return anyOf(
        [true, false]
          .filter((value) => !excluded.includes(value))
          .map((value) => scope.layout.constant(value)),
      );
    default:
      return excluded.includes(null) ? NOTHING : scope.layout.constant(null);
  }
}

/** Only texts, booleans and null can be excluded by value. */
function checkExcluded(all: Conjunction, excluded: readonly unknown[], type: string): void {
  if (excluded.some((value) => isOfType(value, type)))
    all.refuse('not', `excludes a value of type ${type}, which cannot be enforced`);
}

/** Leaves out integers if they are excluded, and all but one text of each value if items are compared by their text. */
function writtenNumbers(numbers: Expression | null, all: Conjunction, scope: SchemaScope): Expression | null {
  const found = all.values('not').some(excludesIntegers) ? inBoth(numbers, anyFraction, scope) : numbers;
  const isCompared = scope.layout.isDistinct && found !== anyInteger;
  return isCompared ? inBoth(found, anyDistinctNumber, scope) : found;
}

function inBoth(numbers: Expression | null, others: Expression, scope: SchemaScope): Expression | null {
  if (numbers === null || numbers === anyNumber) return numbers && others;
  const states = regularStates([numbers, others], []);
  const label = scope.newLabel();
  const define = (index: number, body: (() => Expression) | null) =>
    scope.ruleNamed(`${label} ${index}`, body);
  return states && regularExpression(states, plainSpelling, define);
}
