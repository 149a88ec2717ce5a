import { canonicalJson, isObject, type JsonObject } from '../../../util/json.ts';
import type { JsonSchema } from '../../constraint/constraint.ts';
import { isConstraining, refusal } from './conjunction.ts';
import { PATTERN_OF_FORMAT, RANGE_OF_FORMAT } from './formats.ts';
import { constrains, REFUSED } from './keywords.ts';
import type { References } from './references.ts';
import { isOfType } from './types.ts';

/** Deeper references than any value needs. */
const maxDepth = 500;

/** Whether values match schemas, as JSON Schema 2020-12 defines it. For constants, which the grammar then writes. */
export class InstanceCheck {
  readonly #references: References;
  readonly #path: string;
  #depth = 0;

  /** `path` is for messages. */
  constructor(references: References, path: string) {
    this.#references = references;
    this.#path = path;
  }

  /** @throws LanguageError for a keyword that is not supported here. */
  matches(value: unknown, schema: unknown): boolean {
    if (typeof schema === 'boolean') return schema;
    if (!isObject(schema)) throw refusal(this.#path, 'schema', schema, 'must be an object, true or false');
    if (++this.#depth > maxDepth) throw refusal(this.#path, '$ref', schema.$ref, 'has no end');
    const keywords = Object.keys(schema).filter((name) => schema[name] !== undefined && constrains(name));
    const fits = keywords.every((keyword) => this.#fits(value, keyword, schema));
    this.#depth--;
    return fits;
  }

  #fits(value: unknown, keyword: string, schema: JsonSchema): boolean {
    const told = schema[keyword];
    const schemas = Array.isArray(told) ? told : [];
    switch (keyword) {
      case 'type':
        return [told].flat().some((type) => isOfType(value, type));
      case 'enum':
        return schemas.some((one) => equal(one, value));
      case 'const':
        return equal(told, value);
      case 'allOf':
        return schemas.every((one) => this.matches(value, one));
      case 'anyOf':
        return schemas.some((one) => this.matches(value, one));
      case 'oneOf':
        return schemas.filter((one) => this.matches(value, one)).length === 1;
      case 'not':
        return !this.matches(value, told);
      case 'if': {
        const branch = this.matches(value, told) ? schema.then : schema.else;
        return branch === undefined || this.matches(value, branch);
      }
      case 'then':
      case 'else':
        return true;
      case '$ref':
        return this.#fitsTarget(value, schema);
      case 'format':
        return this.#hasFormat(value, told);
    }
    if (REFUSED.has(keyword)) return this.#refuse(keyword, schema);
    if (typeof value === 'string') return this.#fitsText(value, keyword, schema);
    if (typeof value === 'number') return this.#fitsNumber(value, keyword, schema);
    if (Array.isArray(value)) return this.#fitsArray(value, keyword, schema);
    return !isObject(value) || this.#fitsObject(value, keyword, schema);
  }

  #fitsTarget(value: unknown, schema: JsonSchema): boolean {
    const { $ref, ...others } = schema;
    // Older drafts ignore what is beside a reference, so the answer depends on the draft.
    if (isConstraining(others))
      throw refusal(
        this.#path,
        '$ref',
        $ref,
        'has keywords beside it, which cannot be checked beside enum or const',
      );
    const target = this.#references.targetOf(schema);
    if (target === undefined) throw refusal(this.#path, '$ref', $ref, 'has no target in this schema');
    return this.matches(value, target);
  }

  #hasFormat(value: unknown, format: unknown): boolean {
    if (typeof format !== 'string') return true;
    const range = RANGE_OF_FORMAT.get(format);
    if (range && typeof value === 'number')
      return Number.isInteger(value) && value >= range[0] && value <= range[1];
    const pattern = PATTERN_OF_FORMAT.get(format);
    return !pattern || typeof value !== 'string' || new RegExp(pattern, 'u').test(value);
  }

  #fitsText(value: string, keyword: string, schema: JsonSchema): boolean {
    const length = [...value].length;
    if (keyword === 'minLength') return length >= this.#number(keyword, schema);
    if (keyword === 'maxLength') return length <= this.#number(keyword, schema);
    return keyword !== 'pattern' || this.#expression(schema.pattern).test(value);
  }

  #fitsNumber(value: number, keyword: string, schema: JsonSchema): boolean {
    const told = schema[keyword];
    switch (keyword) {
      // Draft 4: true makes the bound beside it exclusive.
      case 'exclusiveMinimum':
        return typeof told === 'boolean'
          ? !told || value > this.#number('minimum', schema)
          : value > this.#number(keyword, schema);
      case 'exclusiveMaximum':
        return typeof told === 'boolean'
          ? !told || value < this.#number('maximum', schema)
          : value < this.#number(keyword, schema);
      case 'minimum':
        return value >= this.#number(keyword, schema);
      case 'maximum':
        return value <= this.#number(keyword, schema);
      case 'multipleOf':
        return Number.isInteger(value / this.#number(keyword, schema));
      default:
        return true;
    }
  }

  #fitsArray(value: unknown[], keyword: string, schema: JsonSchema): boolean {
    const told = schema[keyword];
    const older = Array.isArray(schema.items);
    const first = older ? schema.items : schema.prefixItems;
    const firstItems = Array.isArray(first) ? first : [];
    const allMatch = (rest: unknown) =>
      value.slice(firstItems.length).every((item) => this.matches(item, rest));
    switch (keyword) {
      case 'minItems':
        return value.length >= this.#number(keyword, schema);
      case 'maxItems':
        return value.length <= this.#number(keyword, schema);
      case 'uniqueItems':
        return told !== true || new Set(value.map((item) => canonicalJson(item))).size === value.length;
      case 'prefixItems':
      case 'items':
        if (Array.isArray(told))
          return told.every((one, index) => index >= value.length || this.matches(value[index], one));
        return allMatch(told);
      case 'additionalItems':
        return !older || allMatch(told);
      case 'contains':
      case 'minContains':
      case 'maxContains':
      case 'unevaluatedItems':
        return this.#refuse(keyword, schema);
      default:
        return true;
    }
  }

  #fitsObject(value: JsonObject, keyword: string, schema: JsonSchema): boolean {
    const told = schema[keyword];
    const names = Object.keys(value);
    const named = isObject(told) ? Object.entries(told) : [];
    const hasAll = (list: unknown) =>
      Array.isArray(list) && list.every((name) => Object.hasOwn(value, String(name)));
    switch (keyword) {
      case 'required':
        return hasAll(told);
      case 'properties':
        return named.every(([name, one]) => !Object.hasOwn(value, name) || this.matches(value[name], one));
      case 'patternProperties':
        return named.every(([pattern, one]) =>
          names.every((name) => !this.#expression(pattern).test(name) || this.matches(value[name], one)),
        );
      case 'additionalProperties':
        return names.every((name) => this.#isNamed(name, schema) || this.matches(value[name], told));
      case 'propertyNames':
        return names.every((name) => this.matches(name, told));
      case 'minProperties':
        return names.length >= this.#number(keyword, schema);
      case 'maxProperties':
        return names.length <= this.#number(keyword, schema);
      case 'dependentRequired':
      case 'dependentSchemas':
      case 'dependencies':
        return named.every(
          ([name, one]) =>
            !Object.hasOwn(value, name) || (Array.isArray(one) ? hasAll(one) : this.matches(value, one)),
        );
      case 'unevaluatedProperties':
        return this.#refuse(keyword, schema);
      default:
        return true;
    }
  }

  #isNamed(name: string, { properties, patternProperties }: JsonSchema): boolean {
    if (isObject(properties) && Object.hasOwn(properties, name)) return true;
    return (
      isObject(patternProperties) &&
      Object.keys(patternProperties).some((pattern) => this.#expression(pattern).test(name))
    );
  }

  #number(keyword: string, schema: JsonSchema): number {
    const value = schema[keyword];
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    throw refusal(this.#path, keyword, value, 'must be a number that a double can hold');
  }

  #expression(pattern: unknown): RegExp {
    return expressionOf(pattern, this.#path);
  }

  #refuse(keyword: string, schema: JsonSchema): never {
    throw refusal(this.#path, keyword, schema[keyword], 'cannot be checked beside enum or const');
  }
}

/** The regular expression of a `pattern`. */
export function expressionOf(pattern: unknown, path: string): RegExp {
  try {
    return new RegExp(String(pattern), 'u');
  } catch {
    throw refusal(path, 'pattern', pattern, 'is not a regular expression of ECMAScript');
  }
}

const equal = (left: unknown, right: unknown) => canonicalJson(left) === canonicalJson(right);
