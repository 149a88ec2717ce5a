import { References } from '../../language/basics.ts';
import type { JsonSchema } from '../../language/index.ts';
import { type ExactJson, exactJsonOf, JsonNumber } from '../../util/exact-json.ts';
import { isObject } from '../../util/json.ts';

/**
 * Rewrites JSON as a model under this schema writes it: without white space, and with the keys of each object in the
 * order of the schema's properties, other keys after them. Numbers stay as they are written, except that an integer has
 * no fraction and no exponent. Text that is not JSON stays as it is.
 */
export function reorderJson(text: string, schema: JsonSchema): string {
  const value = exactJsonOf(text);
  return value === undefined ? text : new SchemaOrder(schema).write(value, schema);
}

class SchemaOrder {
  readonly #references: References;
  /** The alternatives of each schema; null while they are being found, so that a reference to itself adds nothing. */
  readonly #forms = new Map<unknown, readonly unknown[] | null>();

  constructor(document: JsonSchema) {
    this.#references = new References(document);
  }

  write(value: ExactJson, schema: unknown): string {
    const form = this.#formOf(value, schema);
    const constant = constantsOf(form)?.find((candidate) => equal(candidate, value));
    // The schema itself was read with JavaScript's numbers, which are exact up to 2^53.
    if (constant !== undefined && !hasLongNumber(constant)) return JSON.stringify(constant);
    if (value instanceof JsonNumber)
      return isObject(form) && form.type === 'integer' ? integerText(value) : value.source;
    if (Array.isArray(value)) {
      const items = value.map((item, index) => this.write(item, itemOf(form, index)));
      return `[${items.join(',')}]`;
    }
    if (!(value instanceof Map)) return JSON.stringify(value);
    const members = membersInOrder(value, form).map(
      ([key, member]) => `${JSON.stringify(key)}:${this.write(member, memberOf(form, key))}`,
    );
    return `{${members.join(',')}}`;
  }

  /** The first of the schema's alternatives that the value fits. */
  #formOf(value: ExactJson, schema: unknown): unknown {
    const forms = this.#formsOf(schema);
    return forms.length === 1 ? forms[0] : forms.find((form) => this.#fitsForm(value, form));
  }

  /**
   * The alternatives of a schema, each merged with what holds beside it, in the order of a compiled constraint: the
   * schema's own keywords, its branch, its reference, `allOf`.
   */
  #formsOf(schema: unknown): readonly unknown[] {
    if (!isObject(schema)) return [schema];
    const known = this.#forms.get(schema);
    if (known !== undefined) return known ?? [];
    this.#forms.set(schema, null);
    const { $ref, allOf, anyOf, oneOf, ...own } = schema;
    const beside = [oneOf, anyOf].flatMap((branches) =>
      Array.isArray(branches) ? [this.#union(branches)] : [],
    );
    if (typeof $ref === 'string') beside.push(this.#formsOf(this.#references.targetOf(schema)));
    if (Array.isArray(allOf)) for (const one of allOf) beside.push(this.#formsOf(one));
    const forms = beside.filter(({ length }) => length > 0).reduce(mergeAll, [own]);
    this.#forms.set(schema, forms);
    return forms;
  }

  /** The alternatives of several schemas, each once. */
  #union(schemas: readonly unknown[]): readonly unknown[] {
    const forms = new Set<unknown>();
    for (const schema of schemas)
      for (const form of this.#formsOf(schema)) if (forms.size < maxForms) forms.add(form);
    return [...forms];
  }

  /** Distinguishes alternatives by types, constants and property names. */
  #fitsForm(value: ExactJson, form: unknown): boolean {
    if (!isObject(form)) return form !== false;
    if (form.type !== undefined && ![form.type].flat().some((type) => isOfType(value, type))) return false;
    const constants = constantsOf(form);
    if (constants) return constants.some((constant) => equal(constant, value));
    if (Array.isArray(value)) return value.every((item, index) => this.#fits(item, itemOf(form, index)));
    if (!(value instanceof Map)) return true;
    const required = Array.isArray(form.required) ? form.required : [];
    return (
      required.every((key) => value.has(String(key))) &&
      [...value].every(([key, member]) => this.#fits(member, memberOf(form, key)))
    );
  }

  #fits(value: ExactJson, schema: unknown): boolean {
    return this.#formsOf(schema).some((form) => this.#fitsForm(value, form));
  }
}

/** As many alternatives as a constraint may merge. */
const maxForms = 5000;

/** Each of some alternatives merged with each of others. */
function mergeAll(some: readonly unknown[], others: readonly unknown[]): readonly unknown[] {
  const merged: unknown[] = [];
  for (const one of some)
    for (const other of others) {
      if (merged.length === maxForms) return merged;
      merged.push(merge(one, other));
    }
  return merged;
}

/** One schema for what two admit together, as far as the order of keys needs it. */
function merge(one: unknown, other: unknown): unknown {
  if (!isObject(one) || !isObject(other)) return one === true || other === false ? other : one;
  if (Object.keys(one).length === 0) return other;
  const merged: JsonSchema = { ...one, ...other };
  if (isObject(one.properties) && isObject(other.properties)) {
    const properties: Record<string, unknown> = { ...one.properties };
    for (const [name, schema] of Object.entries(other.properties))
      properties[name] = Object.hasOwn(properties, name) ? { allOf: [properties[name], schema] } : schema;
    merged.properties = properties;
  }
  if (Array.isArray(one.required) && Array.isArray(other.required))
    merged.required = [...one.required, ...other.required];
  return merged;
}

function membersInOrder(value: Map<string, ExactJson>, form: unknown): [string, ExactJson][] {
  const named = isObject(form) && isObject(form.properties) ? Object.keys(form.properties) : [];
  const rank = new Map(named.map((key, index) => [key, index]));
  const rankOf = ([key]: [string, ExactJson]) => rank.get(key) ?? named.length;
  return [...value].sort((one, other) => rankOf(one) - rankOf(other));
}

/** An integer as the constraint wants it. */
function integerText({ source }: JsonNumber): string {
  const value = Number(source);
  return /^-?\d+$/.test(source) || !Number.isSafeInteger(value) ? source : String(value);
}

const hasLongNumber = (value: unknown): boolean =>
  typeof value === 'number'
    ? Number.isInteger(value) && !Number.isSafeInteger(value)
    : typeof value === 'object' && value !== null && Object.values(value).some(hasLongNumber);

function memberOf(form: unknown, key: string): unknown {
  if (!isObject(form)) return true;
  const { properties } = form;
  if (isObject(properties) && Object.hasOwn(properties, key)) return properties[key];
  // When the schema names properties and says nothing of others, a model writes no others.
  return form.additionalProperties ?? !isObject(properties);
}

function itemOf(form: unknown, index: number): unknown {
  if (!isObject(form)) return true;
  const first: unknown = Array.isArray(form.prefixItems) ? form.prefixItems[index] : undefined;
  return first ?? form.items ?? true;
}

function constantsOf(form: unknown): unknown[] | null {
  if (!isObject(form)) return null;
  if (Array.isArray(form.enum)) return form.enum;
  return form.const === undefined ? null : [form.const];
}

function isOfType(value: ExactJson, type: unknown): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return value instanceof Map;
  if (type === 'integer') return value instanceof JsonNumber && Number.isInteger(Number(value.source));
  if (type === 'number') return value instanceof JsonNumber;
  return typeof value === type;
}

function equal(constant: unknown, value: ExactJson): boolean {
  if (value instanceof JsonNumber) return constant === Number(value.source);
  if (Array.isArray(value))
    return (
      Array.isArray(constant) &&
      constant.length === value.length &&
      value.every((item, index) => equal(constant[index], item))
    );
  if (!(value instanceof Map)) return constant === value;
  return (
    isObject(constant) &&
    Object.keys(constant).length === value.size &&
    [...value].every(([key, item]) => Object.hasOwn(constant, key) && equal(constant[key], item))
  );
}
