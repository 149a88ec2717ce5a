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
import { areDisjoint } from './disjoint.ts';
import { pointerStep } from './keywords.ts';
import { isAtom, negated, without } from './negation.ts';
import type { References } from './references.ts';
import { ALL_TYPES, typesOf } from './types.ts';

/** Most schemas in a `oneOf`: each is built, and compared with the others. */
const maxOneOf = 2_000;
/** Most schemas of a `oneOf` of which each is built without what the others allow. */
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
export function combinationOf(all: Conjunction, references: References): Combination | null {
  for (const part of all.parts) {
    const { schema } = part;
    const found =
      (schema.anyOf !== undefined && branches(part, 'anyOf')) ||
      (schema.oneOf !== undefined && branches(part, 'oneOf')) ||
      (schema.not !== undefined && !isAtom(schema.not) && negation(part, references)) ||
      (schema.if !== undefined && condition(part, references)) ||
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
 * The alternatives of a `oneOf` so that no value matches two of them: as they are, or each without the others.
 * `isPartial`: some of their values are missing.
 * @throws LanguageError if they cannot be told apart.
 */
export function exclusive(
  { part, alternatives }: Combination,
  references: References,
): { distinct: Located[][]; isPartial: boolean } {
  const schemas = alternatives.map(([one]) => {
    const { schema } = one ?? {};
    return (isObject(schema) && references.targetOf(schema)) || schema;
  });
  if (areDisjoint(schemas)) return { distinct: alternatives, isPartial: false };
  const mayNegate = schemas.length <= maxExclusive;
  const whole = mayNegate ? schemas.map((schema) => negated(schema, references)) : [null];
  const isPartial = whole.includes(null);
  const others = isPartial && mayNegate ? schemas.map((schema) => negated(schema, references, true)) : whole;
  if (others.includes(null)) throw overlap(part);
  const distinct = alternatives.map((one, index) => [
    ...one,
    ...others.flatMap((schema, other) =>
      other === index ? [] : [{ schema, path: `${part.path}/oneOf/${other}`, scopes: unscoped }],
    ),
  ]);
  return { distinct, isPartial };
}

export const overlap = ({ path, schema }: SchemaPart): LanguageError =>
  refusal(
    path,
    'oneOf',
    schema.oneOf,
    'has schemas that the same value may match: distinguish them by a constant, or use anyOf',
  );

function negation(part: SchemaPart, references: References): Combination {
  const schema = negated(part.schema.not, references);
  if (schema === null)
    throw refusal(part.path, 'not', part.schema.not, 'cannot be enforced with these keywords');
  return {
    part,
    keywords: ['not'],
    alternatives: [[{ schema, path: `${part.path}/not`, scopes: unscoped }]],
    isExclusive: false,
  };
}

function condition(part: SchemaPart, references: References): Combination {
  const { schema, path } = part;
  const otherwise = negated(schema.if, references);
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
