import { isObject } from '../../util/json.ts';
import type { JsonSchema } from './constraint.ts';

/** Keywords with a text, in which no reference finds a schema. */
const texts = new Set(['title', 'description', '$comment']);
/** Keywords with any value, including a schema that a reference leads to. */
const values = new Set(['default', 'example', 'examples']);

const ofSchemas = new Set(['properties', 'patternProperties', '$defs', 'definitions']);
const asSchemas = new Set([
  ...['anyOf', 'oneOf', 'allOf', 'prefixItems', 'items', 'additionalItems'],
  ...['additionalProperties', 'unevaluatedProperties', 'propertyNames'],
]);

/**
 * A schema without its notes for people, which constrain no value and may be most of its size. Returns the schema
 * itself if it has none.
 */
export function withoutNotes(schema: JsonSchema): JsonSchema {
  const refers = hasReference(schema);
  const strip = (part: unknown): unknown => {
    if (Array.isArray(part)) return mapped(part, strip);
    return isObject(part) ? stripObject(part) : part;
  };
  const stripObject = (part: JsonSchema): JsonSchema => {
    let isSame = true;
    const kept: [string, unknown][] = [];
    for (const [keyword, value] of Object.entries(part)) {
      const isNote = texts.has(keyword) ? typeof value === 'string' : values.has(keyword) && !refers;
      const stripped = isNote ? undefined : stripKeyword(keyword, value);
      if (stripped !== value) isSame = false;
      if (!isNote) kept.push([keyword, stripped]);
    }
    return isSame ? part : Object.fromEntries(kept);
  };
  const stripKeyword = (keyword: string, value: unknown): unknown => {
    if (asSchemas.has(keyword)) return strip(value);
    if (!ofSchemas.has(keyword) || !isObject(value)) return value;
    const members = Object.entries(value);
    const stripped = mapped(members, (member) => {
      const schema = strip(member[1]);
      return schema === member[1] ? member : ([member[0], schema] satisfies [string, unknown]);
    });
    return stripped === members ? value : Object.fromEntries(stripped);
  };
  return stripObject(schema);
}

/** Whether a value contains a `$ref`. */
export function hasReference(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.some(hasReference);
  if (!isObject(schema)) return false;
  return typeof schema.$ref === 'string' || Object.values(schema).some(hasReference);
}

/** Like `map`, but returns the list itself if no item changes. */
function mapped<Item>(items: Item[], make: (item: Item) => Item): Item[] {
  const made = items.map(make);
  return made.every((item, index) => item === items[index]) ? items : made;
}

/** The target of a `$ref` into the same document: a JSON pointer (RFC 6901) as a URI fragment. */
export function resolveReference(pointer: string, document: unknown): unknown {
  if (pointer !== '#' && !pointer.startsWith('#/')) return undefined;
  let target: unknown = document;
  for (const step of pointer.split('/').slice(1)) {
    const key = unescapeStep(step);
    if (Array.isArray(target)) target = target[Number(key)];
    else target = isObject(target) && Object.hasOwn(target, key) ? target[key] : undefined;
  }
  return target;
}

function unescapeStep(step: string): string {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    // A lone "%" is not an escape.
    return step;
  }
}
