import { choice, type Expression, literal, optional, repeat, rule, sequence } from '../expression.ts';
import { anyInteger, anyNumber } from './number.ts';
import { anyString } from './string.ts';

const VALUE = 'json value';
const STRING = 'json string';

const members = (member: Expression): Expression =>
  optional(sequence(member, repeat(sequence(literal(','), member), 0, null)));

/** An object of any members, each key and value given by an expression. */
export const objectOf = (key: Expression, value: Expression): Expression =>
  sequence(literal('{'), members(sequence(key, literal(':'), value)), literal('}'));

export const anyValue: Expression = rule(VALUE);
export const anyKey: Expression = rule(STRING);
export const anyObject: Expression = objectOf(anyKey, anyValue);
export const anyArray: Expression = sequence(literal('['), members(anyValue), literal(']'));

/** Every JSON type with the values it has. */
export const valuesOfType: ReadonlyMap<string, Expression> = new Map([
  ['string', anyKey],
  ['number', anyNumber],
  ['integer', anyInteger],
  ['boolean', choice(literal('true'), literal('false'))],
  ['null', literal('null')],
  ['object', anyObject],
  ['array', anyArray],
]);

/** Rules that the expressions of this file call. */
export const jsonRules: ReadonlyMap<string, Expression> = new Map([
  [STRING, anyString],
  [VALUE, choice(...[...valuesOfType].filter(([type]) => type !== 'integer').map(([, values]) => values))],
]);
