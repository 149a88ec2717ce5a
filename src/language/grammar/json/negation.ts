import { getOrInsert } from '../../../util/get-or-insert.ts';
import { isObject } from '../../../util/json.ts';
import type { JsonSchema } from '../constraint.ts';
import { maxSchemaDepth } from '../limits.ts';
import { isConstraining } from './conjunction.ts';
import { constrains } from './keywords.ts';
import type { References } from './references.ts';
import { ALL_TYPES, namedTypes } from './types.ts';

/**
 * Whether a `not` is enforced as it is: it excludes values, integers, a pattern, or an object with a property of this
 * name.
 */
export function isAtom(not: unknown): boolean {
  if (!isObject(not)) return false;
  const [keyword, ...others] = Object.keys(not).filter(constrains);
  if (keyword === undefined || others.length > 0) return false;
  if (keyword === 'required') return areTexts(not.required) && not.required.length === 1;
  if (keyword === 'pattern') return typeof not.pattern === 'string';
  if (keyword === 'type') return excludesIntegers(not);
  return keyword === 'enum' ? Array.isArray(not.enum) : keyword === 'const';
}

/** Whether a `not` of one keyword excludes integers and no other numbers. */
export const excludesIntegers = (not: unknown): boolean => isObject(not) && not.type === 'integer';

const areTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'string');

/** The schema of objects without a property. */
export const without = (name: string): JsonSchema => ({ type: 'object', not: { required: [name] } });

/** Schemas of the values that do not match others: the same one each time. */
export class Negation {
  readonly references: References;
  readonly #known = new Map<unknown, unknown>();
  /** Names of properties that tell objects from closed ones. Null if nothing may be left out. */
  readonly #names: readonly string[] | null;
  readonly #partial = new Map<unknown, Negation>();
  readonly #open = new Set<unknown>();

  constructor(references: References, names: readonly string[] | null = null) {
    this.references = references;
    this.#names = names;
  }

  /** A schema of values that do not match the schema. Null if it cannot be enforced, or is no schema. */
  of(schema: unknown): unknown {
    return getOrInsert(this.#known, schema, () => this.#made(schema));
  }

  /**
   * A negation that leaves out what cannot be enforced, so that some of the values are missing: the same one each time
   * for a key. `names`: properties that tell objects from closed ones without them.
   */
  partial(key: unknown, names: () => readonly string[]): Negation {
    return getOrInsert(this.#partial, key, () => new Negation(this.references, names()));
  }

  #made(schema: unknown): unknown {
    if (typeof schema === 'boolean') return !schema;
    if (!isObject(schema) || this.#open.has(schema) || this.#open.size > maxSchemaDepth) return null;
    if (!isConstraining(schema)) return false;
    if (isAtom(schema)) return this.#atom(schema);
    this.#open.add(schema);
    const keywords = Object.keys(schema).filter((name) => schema[name] !== undefined && constrains(name));
    // In older drafts, nothing beside a reference counts.
    const isClear = schema.$ref === undefined || keywords.length === 1;
    const alternatives = isClear ? keywords.map((keyword) => this.#ofKeyword(schema, keyword)) : [null];
    this.#open.delete(schema);
    return this.#oneOf(alternatives);
  }

  #oneOf(alternatives: unknown[]): unknown {
    const possible = alternatives.filter((one) => one !== false && one !== null);
    if (alternatives.includes(null) && !(this.#names && possible.length > 0)) return null;
    return possible.length > 1 ? { anyOf: possible } : (possible[0] ?? false);
  }

  #atom(schema: JsonSchema): JsonSchema {
    if (schema.required !== undefined) return { type: 'object', not: schema };
    return schema.pattern === undefined ? { not: schema } : { type: 'string', not: schema };
  }

  #ofKeyword(schema: JsonSchema, keyword: string): unknown {
    const value = schema[keyword];
    switch (keyword) {
      case 'type': {
        const named = namedTypes(schema) ?? [];
        if (named.length === 0) return null;
        const others = ALL_TYPES.filter((type) => !named.includes(type));
        const isFraction = others.includes('number') && named.includes('integer');
        return others.length > 0 && { type: others, ...(isFraction ? { not: { type: 'integer' } } : {}) };
      }
      case 'enum':
      case 'const':
      case 'pattern': {
        const only = { [keyword]: value };
        return isAtom(only) ? this.#atom(only) : null;
      }
      case 'minimum':
        return typeof value === 'number' && typeof schema.exclusiveMinimum !== 'boolean'
          ? { type: 'number', exclusiveMaximum: value }
          : null;
      case 'maximum':
        return typeof value === 'number' && typeof schema.exclusiveMaximum !== 'boolean'
          ? { type: 'number', exclusiveMinimum: value }
          : null;
      case 'exclusiveMinimum':
        return typeof value === 'number' ? { type: 'number', maximum: value } : null;
      case 'exclusiveMaximum':
        return typeof value === 'number' ? { type: 'number', minimum: value } : null;
      case 'minLength':
        return this.#counted('string', 'maxLength', value, -1);
      case 'maxLength':
        return this.#counted('string', 'minLength', value, 1);
      case 'minItems':
        return this.#counted('array', 'maxItems', value, -1);
      case 'maxItems':
        return this.#counted('array', 'minItems', value, 1);
      // A value without the format may still be valid, since formats are annotations by default.
      case 'format':
        return false;
      case 'required':
        return areTexts(value) ? value.length > 0 && { anyOf: value.map(without) } : null;
      case 'properties':
        return isObject(value) ? this.#ofProperties(value) : null;
      case 'additionalProperties':
        return value === true ? false : value === false ? this.#ofClosed(schema) : null;
      case 'anyOf':
        return this.#ofAll(value, 'allOf');
      case 'allOf':
        return this.#ofAll(value, 'anyOf');
      case 'not':
        return value;
      case '$ref':
        return this.of(this.references.targetOf(schema));
      default:
        return value === true ? false : null;
    }
  }

  #counted(type: string, keyword: string, value: unknown, step: number): unknown {
    if (typeof value !== 'number') return null;
    return value + step >= 0 && { type, [keyword]: value + step };
  }

  #ofProperties(properties: JsonSchema): unknown {
    const alternatives = Object.entries(properties).map(([name, schema]) => {
      const other = this.of(schema);
      return other && { type: 'object', required: [name], properties: Object.fromEntries([[name, other]]) };
    });
    return this.#oneOf(alternatives);
  }

  /** Objects with a property that a closed one does not have, as far as names are known. */
  #ofClosed({ properties, patternProperties }: JsonSchema): unknown {
    const own = isObject(properties) ? properties : {};
    const others = this.#names?.filter((name) => !Object.hasOwn(own, name)) ?? [];
    if (others.length === 0 || patternProperties !== undefined) return null;
    return { anyOf: others.map((name) => ({ type: 'object', required: [name] })) };
  }

  #ofAll(schemas: unknown, keyword: string): unknown {
    if (!Array.isArray(schemas) || schemas.length === 0) return null;
    const others = schemas.map((schema) => this.of(schema));
    return others.includes(null) ? null : { [keyword]: others };
  }
}
