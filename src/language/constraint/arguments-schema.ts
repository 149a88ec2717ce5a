import { isObject } from '../../util/json.ts';
import type { Location } from '../error.ts';
import type { JsonSchema } from './constraint.ts';
import { hasReference, resolveReference } from './schema-notes.ts';
import { type LocatedSchema, SchemaRoom } from './schema-size.ts';

/** Keywords about objects, and keywords about values of other types only. */
const objectKeywords = [
  ...['properties', 'required', 'additionalProperties', 'unevaluatedProperties', 'propertyNames'],
];
const otherKeywords = new Set([
  ...['minLength', 'maxLength', 'pattern', 'format'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  ...['items', 'prefixItems', 'additionalItems', 'minItems', 'maxItems', 'uniqueItems'],
]);

export interface ArgumentsOptions {
  /** Budget that the tools of one request share. Default: a new one. */
  room?: SchemaRoom;
  /** Path of the parameters in the request, for errors. */
  location?: Location;
}

/**
 * Narrows the parameters of a tool to objects, since the arguments of a call are an object. A schema that names no type
 * admits any object, and branches of other types are dropped. A schema that admits only objects is returned unchanged;
 * null means that it admits none.
 * @throws LanguageError (a 422) if the budget does not suffice.
 */
export function argumentsSchema(
  parameters: JsonSchema,
  { room = new SchemaRoom(), location = ['parameters'] }: ArgumentsOptions = {},
): JsonSchema | null {
  const document = rebased(parameters);
  const at = { schema: parameters, location };
  const narrowing = new Narrowing(document, room, at);
  const narrowed = narrowing.objectsOf(document);
  if (narrowed === document) return parameters;
  if (!isObject(narrowed)) return null;
  room.takeCharactersOf(narrowed, at);
  // Targets of references keep their full meaning, including the root, for properties that refer to them.
  return hasReference(document) ? { ...narrowed, $defs: { document, objects: narrowing.targets } } : narrowed;
}

/** Longest chain of references, limited by the call stack. */
const deepestReferences = 1000;

/** The target of a reference admits only objects, so nothing changes. */
const same = Symbol('same');

class Narrowing {
  readonly #document: unknown;
  readonly #room: SchemaRoom;
  readonly #at: LocatedSchema;
  /** Targets of references, by pointer. */
  readonly #resolved = new Map<string, unknown>();
  /**
   * The result for each target of references: `same`, the reference to use instead, or null if it admits no object. Set
   * before the target is narrowed, for recursive references.
   */
  readonly #narrowed = new Map<unknown, typeof same | string | null>();
  readonly #made = new Map<JsonSchema, unknown>();
  /** Targets that admitted more than objects, narrowed. */
  readonly targets: unknown[] = [];
  #depth = 0;

  constructor(document: unknown, room: SchemaRoom, at: LocatedSchema) {
    this.#document = { $defs: { document } };
    this.#room = room;
    this.#at = at;
  }

  /** The schema narrowed to objects: itself if it admits nothing else, null if it admits none. */
  objectsOf(schema: unknown): unknown {
    if (schema === true) return { type: 'object' };
    if (!isObject(schema)) return null;
    this.#take(1 + Object.keys(schema).length);
    if (typeof schema.$ref === 'string') return this.#ofReference(schema, schema.$ref);
    if (Array.isArray(schema.enum)) this.#take(schema.enum.length);
    if (schema.enum !== undefined || schema.const !== undefined) return this.#once(schema, ofConstants);
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      const branches = schema[keyword];
      if (Array.isArray(branches) && branches.length > 0) return this.#ofBranches(schema, keyword, branches);
    }
    return this.#once(schema, ofTypes);
  }

  /** Narrows a schema once. Only for results that depend on the schema alone. */
  #once(schema: JsonSchema, make: (schema: JsonSchema) => unknown): unknown {
    if (!this.#made.has(schema)) this.#made.set(schema, make(schema));
    return this.#made.get(schema);
  }

  #take(steps: number): void {
    this.#room.takeSteps(steps, this.#at);
  }

  #ofReference(schema: JsonSchema, pointer: string): unknown {
    const target = this.#resolve(pointer);
    // The compiler reports references that lead nowhere.
    if (target === undefined) return schema;
    if (!this.#narrowed.has(target)) {
      // The compiler refuses chains this deep.
      if (this.#depth === deepestReferences) return schema;
      this.#depth++;
      this.#narrowed.set(target, null);
      this.#narrowed.set(target, this.#narrowTarget(target));
      this.#depth--;
    }
    const reference = this.#narrowed.get(target) ?? null;
    if (reference === null) return null;
    return reference === same ? schema : { ...schema, $ref: reference };
  }

  #resolve(pointer: string): unknown {
    if (!this.#resolved.has(pointer)) this.#resolved.set(pointer, resolveReference(pointer, this.#document));
    return this.#resolved.get(pointer);
  }

  #narrowTarget(target: unknown): typeof same | string | null {
    const narrowed = this.objectsOf(target);
    if (narrowed === target) return same;
    if (narrowed === null) return null;
    this.#room.takeCharactersOf(narrowed, this.#at);
    return `#/$defs/objects/${this.targets.push(narrowed) - 1}`;
  }

  #ofBranches(schema: JsonSchema, keyword: string, branches: unknown[]): unknown {
    this.#take(branches.length);
    const objects = branches.map((branch) => this.objectsOf(branch));
    if (objects.every((branch, index) => branch === branches[index])) return schema;
    const kept = objects.filter((branch) => branch !== null);
    // A value must match every branch of an allOf.
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

/** A copy whose references point into `$defs.document`. */
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
