import type { JsonSchema } from '../../../engines/engine.ts';
import { isObject } from '../../body.ts';
import { resolveReference } from './local-reference.ts';

/** Keywords that say something about objects, and those that are about values of another type alone. */
const objectKeywords = [
  ...['properties', 'required', 'additionalProperties', 'unevaluatedProperties', 'propertyNames'],
];
const otherKeywords = new Set([
  ...['minLength', 'maxLength', 'pattern', 'format'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  ...['items', 'prefixItems', 'additionalItems', 'minItems', 'maxItems', 'uniqueItems'],
]);

/**
 * The objects among the values that the parameters of a tool admit, since the arguments of a call are an object: a
 * schema silent on types admits any, and branches of other types fall away. A schema that admits nothing but objects
 * is returned as it is. Null: no object is admitted.
 */
export function argumentsSchema(parameters: JsonSchema): JsonSchema | null {
  const document = rebased(parameters);
  const narrowing = new Narrowing(document);
  const narrowed = narrowing.objectsOf(document);
  if (narrowed === document) return parameters;
  if (!isObject(narrowed)) return null;
  // What references lead to must stay what it was, the root included, where a property has its type.
  return hasReference(document) ? { ...narrowed, $defs: { document, objects: narrowing.targets } } : narrowed;
}

/** References that lead to each other: as many as a call stack bears. */
const deepestReferences = 1000;

class Narrowing {
  readonly #document: unknown;
  /** By pointer: the reference to use instead, or null. Known before it is found, for references to themselves. */
  readonly #references = new Map<string, unknown>();
  /** Targets of references that admitted more than objects. */
  readonly targets: unknown[] = [];
  #depth = 0;

  constructor(document: unknown) {
    this.#document = { $defs: { document } };
  }

  /** The same schema where all of its values are objects; null where none is. */
  objectsOf(schema: unknown): unknown {
    if (schema === true) return { type: 'object' };
    if (!isObject(schema)) return null;
    if (typeof schema.$ref === 'string') return this.#ofReference(schema, schema.$ref);
    if (schema.enum !== undefined || schema.const !== undefined) return ofConstants(schema);
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      const branches = schema[keyword];
      if (Array.isArray(branches) && branches.length > 0) return this.#ofBranches(schema, keyword, branches);
    }
    return ofTypes(schema);
  }

  #ofReference(schema: JsonSchema, pointer: string): unknown {
    if (!this.#references.has(pointer)) {
      // The engine refuses what is as deep as this.
      if (this.#depth === deepestReferences) return schema;
      this.#depth++;
      this.#references.set(pointer, null);
      this.#references.set(pointer, this.#narrowTarget(pointer));
      this.#depth--;
    }
    const reference = this.#references.get(pointer);
    if (typeof reference !== 'string') return null;
    return reference === pointer ? schema : { ...schema, $ref: reference };
  }

  #narrowTarget(pointer: string): string | null {
    const target = resolveReference(pointer, this.#document);
    // The engine says which reference leads nowhere.
    if (target === undefined) return pointer;
    const narrowed = this.objectsOf(target);
    if (narrowed === target) return pointer;
    return narrowed === null ? null : `#/$defs/objects/${this.targets.push(narrowed) - 1}`;
  }

  #ofBranches(schema: JsonSchema, keyword: string, branches: unknown[]): unknown {
    const objects = branches.map((branch) => this.objectsOf(branch));
    if (objects.every((branch, index) => branch === branches[index])) return schema;
    const kept = objects.filter((branch) => branch !== null);
    // Values of an allOf fit all of it.
    if (kept.length === 0 || (keyword === 'allOf' && kept.length < branches.length)) return null;
    return { ...schema, [keyword]: kept };
  }
}

function ofConstants(schema: JsonSchema): unknown {
  if (!namesObjects(schema)) return null;
  if (schema.const !== undefined && !isObject(schema.const)) return null;
  if (!Array.isArray(schema.enum)) return schema;
  const kept = schema.enum.filter(isObject);
  if (kept.length === schema.enum.length) return schema;
  return kept.length === 0 ? null : { ...schema, enum: kept };
}

function ofTypes(schema: JsonSchema): unknown {
  if (!namesObjects(schema)) return null;
  const keywords = Object.keys(schema);
  const others = keywords.some((keyword) => otherKeywords.has(keyword));
  const onlyObjects =
    schema.type === undefined
      ? !others && objectKeywords.some((keyword) => schema[keyword] !== undefined)
      : schema.type === 'object' || (Array.isArray(schema.type) && schema.type.length === 1);
  if (onlyObjects) return schema;
  const kept = Object.entries(schema).filter(([keyword]) => !otherKeywords.has(keyword));
  return { ...Object.fromEntries(kept), type: 'object' };
}

const namesObjects = ({ type }: JsonSchema): boolean =>
  type === undefined || type === 'object' || (Array.isArray(type) && type.includes('object'));

/** A copy whose references lead into `$defs.document`. */
function rebased(schema: JsonSchema): JsonSchema;
function rebased(schema: unknown): unknown;
function rebased(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((part: unknown) => rebased(part));
  if (!isObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) =>
      key === '$ref' && typeof value === 'string'
        ? [key, value.replace(/^#/, '#/$defs/document')]
        : [key, rebased(value)],
    ),
  );
}

function hasReference(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.some(hasReference);
  if (!isObject(schema)) return false;
  return typeof schema.$ref === 'string' || Object.values(schema).some(hasReference);
}
