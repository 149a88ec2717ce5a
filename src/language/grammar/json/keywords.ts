import { append } from '../../../util/extremes.ts';
import { isObject } from '../../../util/json.ts';
import type { JsonSchema } from '../constraint.ts';
import { hasMeaning } from './formats.ts';

/** Keywords that describe a schema and do not constrain its values. */
const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  'id',
  '$anchor',
  '$dynamicAnchor',
  '$recursiveAnchor',
  '$vocabulary',
  '$comment',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
  'example',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentEncoding',
  'contentMediaType',
  'contentSchema',
]);

/** Keywords that constrain the values of one type. Values of other types they allow. */
export const KEYWORDS_OF_TYPE: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'pattern'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  array: [
    'items',
    'prefixItems',
    'additionalItems',
    'minItems',
    'maxItems',
    'uniqueItems',
    'contains',
    'minContains',
    'maxContains',
    'unevaluatedItems',
  ],
  object: [
    'properties',
    'required',
    'additionalProperties',
    'patternProperties',
    'propertyNames',
    'minProperties',
    'maxProperties',
    'dependentRequired',
    'dependentSchemas',
    'dependencies',
    'unevaluatedProperties',
  ],
};

/** Keywords with one schema, with a list of schemas, and with schemas by name. */
const ONE_SCHEMA = [
  'items',
  'additionalItems',
  'contains',
  'unevaluatedItems',
  'additionalProperties',
  'propertyNames',
  'unevaluatedProperties',
  'not',
  'if',
  'then',
  'else',
];
const SCHEMA_LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items'];
const SCHEMAS_BY_NAME = [
  'properties',
  'patternProperties',
  'dependentSchemas',
  'dependencies',
  '$defs',
  'definitions',
];

/** Keywords that constrain and are never enforced, and what to do instead. */
export const REFUSED: ReadonlyMap<string, string> = new Map([
  ['$dynamicRef', 'cannot be followed: use $ref'],
  ['$recursiveRef', 'cannot be followed: use $ref'],
  ['divisibleBy', 'is from an older draft: use multipleOf'],
  ['disallow', 'is from an older draft: use not'],
  ['extends', 'is from an older draft: use allOf'],
]);

const CONSTRAINING = new Set([
  ...Object.values(KEYWORDS_OF_TYPE).flat(),
  ...['type', 'enum', 'const', 'format', '$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else'],
  ...REFUSED.keys(),
]);

/** Whether a keyword may constrain values. */
export const constrains = (keyword: string): boolean => CONSTRAINING.has(keyword);

/** The schemas directly within a schema, each with its pointer from there. */
export function innerSchemas(schema: JsonSchema): [pointer: string, inner: unknown][] {
  const found: [string, unknown][] = [];
  for (const keyword of ONE_SCHEMA)
    if (schema[keyword] !== undefined && !Array.isArray(schema[keyword]))
      found.push([`/${keyword}`, schema[keyword]]);
  for (const keyword of SCHEMA_LISTS) {
    const list = schema[keyword];
    if (Array.isArray(list))
      for (const [index, inner] of list.entries()) found.push([`/${keyword}/${index}`, inner]);
  }
  for (const keyword of SCHEMAS_BY_NAME) {
    const named = schema[keyword];
    if (isObject(named))
      for (const [name, inner] of Object.entries(named))
        if (!Array.isArray(inner)) found.push([`/${keyword}/${pointerStep(name)}`, inner]);
  }
  return found;
}

/** A name as a step of a JSON pointer (RFC 6901), so that different names give different paths. */
export const pointerStep = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

/**
 * What a schema and those within it say that JSON Schema gives no meaning, such as `"markdownDescription"` or
 * `"format": "color"`. To JSON Schema these are annotations, so they are not enforced.
 */
export function unenforcedOf(schema: unknown): string[] {
  const found = new Set<string>();
  const pending = [schema];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (!isObject(next)) continue;
    for (const [keyword, value] of Object.entries(next)) {
      if (keyword === 'format' && typeof value === 'string') {
        if (!hasMeaning(value)) found.add(`"format": ${JSON.stringify(value)}`);
      } else if (!ANNOTATIONS.has(keyword) && !constrains(keyword) && !keyword.startsWith('x-'))
        found.add(JSON.stringify(keyword));
    }
    append(
      pending,
      innerSchemas(next).map(([, inner]) => inner),
    );
  }
  return [...found];
}
