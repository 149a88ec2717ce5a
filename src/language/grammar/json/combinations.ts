import { isObject } from '../../../util/json.ts';
import type { LanguageError } from '../../error.ts';
import {
  type Conjunction,
  type Located,
  listOf,
  refusal,
  type SchemaPart,
  schemasOf,
} from './conjunction.ts';
import { areDisjoint, overlapsOf } from './disjoint.ts';
import { pointerStep } from './keywords.ts';
import { isAtom, type Negation, without } from './negation.ts';
import { ALL_TYPES, typesNamedIn, typesOf } from './types.ts';

/** Most schemas in a `oneOf`: each is built, and compared with the others. */
const maxOneOf = 2_000;
/** Most schemas of a `oneOf` that are taken away from others. */
const maxExclusive = 16;

/** Schemas that a value must not match describe nothing for `unevaluatedProperties`. */
const unscoped: Located['scopes'] = [];

/** One keyword of a part that allows several kinds of values. */
export interface Combination {
  part: SchemaPart;
  /** The keywords that the alternatives take the place of. */
  keywords: string[];
  /** Each is a list of schemas that hold together. */
  alternatives: Located[][];
  /** At most one may hold; else any number of them. */
  isExclusive: boolean;
}

/** The first keyword of the schemas that combines others; null if there is none. */
export function combinationOf(all: Conjunction, negation: Negation): Combination | null {
  for (const part of all.parts) {
    const { schema } = part;
    const found =
      (schema.anyOf !== undefined && branches(part, 'anyOf')) ||
      (schema.oneOf !== undefined && branches(part, 'oneOf')) ||
      (schema.not !== undefined && !isAtom(schema.not) && withoutNot(part, negation)) ||
      (schema.if !== undefined && condition(part, negation)) ||
      dependency(part, all);
    if (found) return found;
  }
  return null;
}

function branches(part: SchemaPart, keyword: 'anyOf' | 'oneOf'): Combination {
  const schemas = listOf(part, keyword);
  if (schemas.length === 0) throw refusal(part.path, keyword, schemas, 'is empty');
  const isExclusive = keyword === 'oneOf';
  if (isExclusive && schemas.length > maxOneOf)
    throw refusal(part.path, keyword, schemas, `has more than ${maxOneOf} schemas to distinguish: use anyOf`);
  const alternatives = schemas.map((schema, index) => [{ schema, path: `${part.path}/${keyword}/${index}` }]);
  return { part, keywords: [keyword], alternatives, isExclusive };
}

/**
 * Makes the alternatives of a `oneOf` such that no value matches two of them: unchanged, or with added schemas that
 * keep them apart. Drops alternatives that no value matches by type. `all`: all schemas that hold, with the `oneOf`.
 * `byNames`: closed objects are also told by the properties that only one of them may have, which makes more
 * alternatives. `isPartial`: some values of the alternatives are missing.
 * @throws LanguageError if they cannot be kept apart.
 */
export function exclusive(
  { part, alternatives: written }: Combination,
  all: Conjunction,
  negation: Negation,
  byNames: boolean,
): { alternatives: Located[][]; distinct: Located[][]; isPartial: boolean } {
  const types = typesNamedIn(all.parts.map(({ schema }) => schema));
  const possible = written.flatMap((alternative) => {
    const schema = negation.references.target(alternative[0]?.schema);
    return mayMatch(schema, types) ? [{ alternative, schema }] : [];
  });
  const alternatives = possible.map(({ alternative }) => alternative);
  const schemas = possible.map(({ schema }) => schema);
  const overlaps = overlapsOf(schemas, types);
  const met = new Set(overlaps.flat());
  if (met.size === 0) return { alternatives, distinct: alternatives, isPartial: false };
  const isOfAnyType = (schema: unknown) => isObject(schema) && schema.type === undefined;
  // A value that is no object matches several of them, if their properties alone tell them apart.
  if (schemas.filter(isOfAnyType).length > 1 && areDisjoint(schemas, ['object'])) {
    const object = { schema: { type: 'object' }, path: `${part.path}/oneOf`, scopes: unscoped };
    return { alternatives, distinct: alternatives.map((one) => [...one, object]), isPartial: false };
  }
  if (met.size > maxExclusive) throw overlap(part);
  const isPartial = [...met].some((other) => negation.of(schemas[other]) === null);
  const partial = byNames
    ? negation.partial(part.schema.oneOf, () => propertiesOf(written, negation))
    : negation.partial(null, () => []);
  const without = new Map(
    [...met].map((other) => [other, (isPartial ? partial : negation).of(schemas[other])]),
  );
  if ([...without.values()].includes(null)) throw overlap(part);
  const distinct = alternatives.map((one, index) => [
    ...one,
    ...(overlaps[index] ?? []).map((other) => ({
      schema: without.get(other),
      path: `${part.path}/oneOf/${other}`,
      scopes: unscoped,
    })),
  ]);
  return { alternatives, distinct, isPartial };
}

/** The names of the properties of all alternatives. */
function propertiesOf(alternatives: readonly Located[][], { references }: Negation): string[] {
  const schemas = alternatives.map(([one]) => references.target(one?.schema));
  const properties = schemas.map((schema) => (isObject(schema) ? schema.properties : null));
  return [...new Set(properties.flatMap((named) => (isObject(named) ? Object.keys(named) : [])))];
}

/** Whether a value of these types may match. Only what is sure is told: the values may still be none. */
function mayMatch(schema: unknown, types: readonly string[] | null): boolean {
  if (!isObject(schema)) return schema !== false;
  const named = typesNamedIn([schema]);
  return !types || !named || named.some((type) => types.includes(type));
}

export const overlap = ({ path, schema }: SchemaPart): LanguageError =>
  refusal(
    path,
    'oneOf',
    schema.oneOf,
    'has schemas that the same value may match: distinguish them by a constant, or use anyOf',
  );

function withoutNot(part: SchemaPart, negation: Negation): Combination {
  const schema = negation.of(part.schema.not);
  if (schema === null)
    throw refusal(part.path, 'not', part.schema.not, 'cannot be enforced with these keywords');
  return {
    part,
    keywords: ['not'],
    alternatives: [[{ schema, path: `${part.path}/not`, scopes: unscoped }]],
    isExclusive: false,
  };
}

function condition(part: SchemaPart, negation: Negation): Combination {
  const { schema, path } = part;
  const otherwise = negation.of(schema.if);
  if (otherwise === null) throw refusal(path, 'if', schema.if, 'cannot be enforced with these keywords');
  return {
    part,
    keywords: ['if', 'then', 'else'],
    alternatives: [
      [
        { schema: schema.if, path: `${path}/if` },
        { schema: schema.then ?? true, path: `${path}/then` },
      ],
      [
        { schema: otherwise, path: `${path}/if`, scopes: unscoped },
        { schema: schema.else ?? true, path: `${path}/else` },
      ],
    ],
    isExclusive: false,
  };
}

const DEPENDENCIES = ['dependentRequired', 'dependentSchemas', 'dependencies'];

function dependency(part: SchemaPart, all: Conjunction): Combination | null {
  for (const keyword of DEPENDENCIES) {
    const [first] = schemasOf(part, keyword);
    if (!first) continue;
    const [name, needed] = first;
    const path = `${part.path}/${keyword}/${pointerStep(name)}`;
    const schema = Array.isArray(needed) ? { required: needed } : needed;
    const others = ALL_TYPES.filter((type) => type !== 'object');
    const mayBeOther = typesOf(all)?.some((type) => type !== 'object') ?? false;
    return {
      part,
      keywords: [`${keyword}/${name}`],
      alternatives: [
        [
          { schema: { type: 'object', required: [name] }, path },
          { schema, path },
        ],
        [{ schema: without(name), path }],
        ...(mayBeOther ? [[{ schema: { type: others }, path }]] : []),
      ],
      isExclusive: false,
    };
  }
  return null;
}

/** A part without the keywords of a combination. */
export function remainderOf({ part, keywords }: Combination): Record<string, unknown> {
  const rest = { ...part.schema };
  for (const keyword of keywords) {
    const slash = keyword.indexOf('/');
    if (slash < 0) delete rest[keyword];
    else {
      const outer = keyword.slice(0, slash);
      const { [keyword.slice(slash + 1)]: _, ...others } = isObject(rest[outer]) ? rest[outer] : {};
      if (Object.keys(others).length > 0) rest[outer] = others;
      else delete rest[outer];
    }
  }
  return rest;
}
