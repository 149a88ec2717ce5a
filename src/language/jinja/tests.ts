import { textOf } from './arguments.ts';
import { compare, equal, isNumeric, itemsOf, TemplateError, typeName, type Value } from './value.ts';

type Test = (value: Value, argument: Value) => boolean;

function integer(value: Value): bigint {
  if (isNumeric(value) && typeof value !== 'number') return BigInt(value);
  throw new TemplateError(`an integer is tested here, not ${typeName(value)}`);
}

/** Python's `in`. */
export function isIn(value: Value, container: Value): boolean {
  if (typeof container === 'string') return container.includes(textOf(value));
  if (container instanceof Map) return typeof value === 'string' && container.has(value);
  return itemsOf(container).some((item) => equal(item, value));
}

const isSequence = (value: Value) =>
  typeof value === 'string' || Array.isArray(value) || value instanceof Map;

const tests: Readonly<Record<string, Test>> = {
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  none: (value) => value === null,
  defined: (value) => value !== undefined,
  undefined: (value) => value === undefined,
  string: (value) => typeof value === 'string',
  number: isNumeric,
  integer: (value) => typeof value === 'bigint',
  float: (value) => typeof value === 'number',
  mapping: (value) => value instanceof Map,
  sequence: (value) => isSequence(value) || value === undefined,
  iterable: (value) => isSequence(value) || value === undefined,
  callable: (value) => typeof value === 'function',
  odd: (value) => integer(value) % 2n !== 0n,
  even: (value) => integer(value) % 2n === 0n,
  divisibleby: (value, by) => integer(value) % integer(by) === 0n,
  lower: (value) => textOf(value) === textOf(value).toLowerCase(),
  upper: (value) => textOf(value) === textOf(value).toUpperCase(),
  in: isIn,
  eq: equal,
  ne: (value, other) => !equal(value, other),
  lt: (value, other) => compare(value, other) < 0,
  le: (value, other) => compare(value, other) <= 0,
  gt: (value, other) => compare(value, other) > 0,
  ge: (value, other) => compare(value, other) >= 0,
};

const otherNames: Readonly<Record<string, string>> = {
  equalto: 'eq',
  '==': 'eq',
  '!=': 'ne',
  lessthan: 'lt',
  '<': 'lt',
  '<=': 'le',
  greaterthan: 'gt',
  '>': 'gt',
  '>=': 'ge',
};

/** The test of this name with the arguments that follow the tested value: as many as its function has. */
export function testNamed(name: string, args: readonly Value[]): (value: Value) => boolean {
  const known = Object.hasOwn(otherNames, name) ? (otherNames[name] ?? name) : name;
  const test = Object.hasOwn(tests, known) ? tests[known] : undefined;
  if (!test) throw new TemplateError(`there is no test ${JSON.stringify(name)}`);
  if (args.length !== test.length - 1)
    throw new TemplateError(`the test ${name} takes ${test.length - 1} arguments, not ${args.length}`);
  return (value) => test(value, args[0]);
}
