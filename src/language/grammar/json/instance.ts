import { LRUCache } from 'lru-cache';
import { getOrInsert } from '../../../util/get-or-insert.ts';
import { canonicalJson, isObject, type JsonObject } from '../../../util/json.ts';
import type { JsonSchema } from '../constraint.ts';
import { patternLanguage } from '../look-around.ts';
import { matcherOf } from '../nondeterministic.ts';
import { isConstraining, listOf, namesOf, refusal, schemasOf } from './conjunction.ts';
import { PATTERN_OF_FORMAT, RANGE_OF_FORMAT } from './formats.ts';
import { constrains, REFUSED } from './keywords.ts';
import type { References } from './references.ts';
import { isOfType, namedTypes } from './types.ts';

const matchers = new LRUCache<string, (text: string) => boolean>({ max: 64 });
/** Deeper references than any value needs. */
const maxDepth = 500;

/** Whether values match schemas, as JSON Schema 2020-12 defines it. For constants, which the grammar then writes. */
export class InstanceCheck {
  readonly #references: References;
  readonly #path: string;
  #depth = 0;
  /** Number of enclosing schemas, such as `not`, that a mismatch may satisfy. */
  #reversing = 0;
  /** What is known of schemas and values, elsewhere and within such schemas. */
  readonly #known = new Map<JsonSchema, Map<unknown, boolean>>();
  readonly #knownReversed = new Map<JsonSchema, Map<unknown, boolean>>();

  /** `path` is for messages. */
  constructor(references: References, path: string) {
    this.#references = references;
    this.#path = path;
  }

  /** @throws LanguageError for a keyword that is not supported here. */
  matches(value: unknown, schema: unknown): boolean {
    if (typeof schema === 'boolean') return schema;
    if (!isObject(schema)) throw refusal(this.#path, 'schema', schema, 'must be an object, true or false');
    const known = this.#knownOf(schema);
    const before = known.get(value);
    if (before !== undefined) return before;
    if (++this.#depth > maxDepth) throw refusal(this.#path, '$ref', schema.$ref, 'has no end');
    const keywords = Object.keys(schema).filter((name) => schema[name] !== undefined && constrains(name));
    const fits = keywords.every((keyword) => this.#fits(value, keyword, schema));
    this.#depth--;
    known.set(value, fits);
    return fits;
  }

  #knownOf(schema: JsonSchema): Map<unknown, boolean> {
    const known = this.#reversing > 0 ? this.#knownReversed : this.#known;
    return getOrInsert(known, schema, () => new Map<unknown, boolean>());
  }

  /** Like `matches`, where the value may be valid because it does not match. */
  #matchesExactly(value: unknown, schema: unknown): boolean {
    this.#reversing++;
    const matches = this.matches(value, schema);
    this.#reversing--;
    return matches;
  }

  #fits(value: unknown, keyword: string, schema: JsonSchema): boolean {
    const told = schema[keyword];
    const schemas = () => listOf({ schema, path: this.#path }, keyword);
    switch (keyword) {
      case 'type':
        if (namedTypes(schema)?.length === 0) throw refusal(this.#path, 'type', told, 'is not a JSON type');
        return [told].flat().some((type) => isOfType(value, type));
      case 'enum':
        return textsOf(schemas()).has(canonicalJson(value));
      case 'const':
        return canonicalJson(told) === canonicalJson(value);
      case 'allOf':
        return schemas().every((one) => this.matches(value, one));
      case 'anyOf':
        return schemas().some((one) => this.matches(value, one));
      case 'oneOf':
        return schemas().filter((one) => this.#matchesExactly(value, one)).length === 1;
      case 'not':
        return !this.#matchesExactly(value, told);
      case 'if': {
        const branch = this.#matchesExactly(value, told) ? schema.then : schema.else;
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
      return this.#hasSurely(format, Number.isInteger(value) && value >= range[0] && value <= range[1]);
    const pattern = PATTERN_OF_FORMAT.get(format);
    if (!pattern || typeof value !== 'string') return true;
    return this.#hasSurely(format, containsMatch(pattern, value));
  }

  /** Some texts of a format do not match its pattern, and validators may take formats for annotations. */
  #hasSurely(format: string, matches: boolean): boolean {
    if (!matches && this.#reversing > 0)
      throw refusal(
        this.#path,
        'format',
        format,
        'cannot be checked within not, if or oneOf beside enum or const',
      );
    return matches;
  }

  #fitsText(value: string, keyword: string, schema: JsonSchema): boolean {
    const length = [...value].length;
    if (keyword === 'minLength') return length >= this.#number(keyword, schema);
    if (keyword === 'maxLength') return length <= this.#number(keyword, schema);
    return keyword !== 'pattern' || matchesPattern(schema.pattern, value, this.#path);
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
    const part = { schema, path: this.#path };
    const named = () => schemasOf(part, keyword);
    const hasAll = (list: readonly unknown[]) => list.every((name) => Object.hasOwn(value, String(name)));
    switch (keyword) {
      case 'required':
        return hasAll(namesOf(part, keyword));
      case 'properties':
        return named().every(([name, one]) => !Object.hasOwn(value, name) || this.matches(value[name], one));
      case 'patternProperties':
        return named().every(([pattern, one]) =>
          names.every((name) => !matchesPattern(pattern, name, this.#path) || this.matches(value[name], one)),
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
        return named().every(
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
      Object.keys(patternProperties).some((pattern) => matchesPattern(pattern, name, this.#path))
    );
  }

  #number(keyword: string, schema: JsonSchema): number {
    const value = schema[keyword];
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    throw refusal(this.#path, keyword, value, 'must be a number that a double can hold');
  }

  #refuse(keyword: string, schema: JsonSchema): never {
    throw refusal(this.#path, keyword, schema[keyword], 'cannot be checked beside enum or const');
  }
}

/** Whether a text contains a match of a `pattern`. */
export function matchesPattern(pattern: unknown, text: string, path: string): boolean {
  if (typeof pattern !== 'string') throw refusal(path, 'pattern', pattern, 'must be a string');
  return containsMatch(pattern, text);
}

/** In time that grows with the length of the text, unlike JavaScript's regular expressions. */
function containsMatch(pattern: string, text: string): boolean {
  return getOrInsert(matchers, pattern, () => matcherOf(patternLanguage(pattern)))(text);
}

const texts = new WeakMap<readonly unknown[], ReadonlySet<string>>();

/** The constants of an `enum` as text: each of its thousands of values is looked for among all. */
function textsOf(constants: readonly unknown[]): ReadonlySet<string> {
  const known = texts.get(constants) ?? new Set(constants.map((one) => canonicalJson(one)));
  texts.set(constants, known);
  return known;
}
