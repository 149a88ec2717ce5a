import type { JsonSchema } from '../../language/constraint/constraint.ts';
import { resolveReference } from '../../language/grammar/json/schema.ts';
import { isObject } from '../../util/json.ts';

/**
 * Rewrites JSON as a model under this schema writes it: without white space, and with the keys of each object in the
 * order of the schema's properties, other keys after them. Text that is not JSON, or has numbers that would change,
 * stays as it is.
 */
export function reorderJson(text: string, schema: JsonSchema): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  return keepsNumbers(text) ? new SchemaOrder(schema).write(value, schema) : text;
}

/** Whether parsing keeps the value of each number. It does up to 15 digits (IEEE 754, binary64). */
function keepsNumbers(text: string): boolean {
  const numbers = text.replace(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d[\d.eE+-]*/g) ?? [];
  return numbers.every(
    (number) =>
      String(Number(number)) === number ||
      (Number.isFinite(Number(number)) && number.replace(/[eE].*|\D/g, '').length <= 15),
  );
}

class SchemaOrder {
  readonly #document: JsonSchema;

  constructor(document: JsonSchema) {
    this.#document = document;
  }

  /** Writes the JSON itself, because a JavaScript object would sort keys that are numbers. */
  write(value: unknown, schema: unknown): string {
    const form = this.#formOf(value, schema);
    const constant = constantsOf(form)?.find((candidate) => equal(candidate, value));
    if (constant !== undefined) return JSON.stringify(constant);
    if (Array.isArray(value)) {
      const items = value.map((item: unknown, index) => this.write(item, itemOf(form, index)));
      return `[${items.join(',')}]`;
    }
    if (!isObject(value)) return JSON.stringify(value);
    const members = keysInOrder(value, form).map(
      (key) => `${JSON.stringify(key)}:${this.write(value[key], memberOf(form, key))}`,
    );
    return `{${members.join(',')}}`;
  }

  /** The first of the schema's alternatives that the value fits. */
  #formOf(value: unknown, schema: unknown): unknown {
    const forms = this.#formsOf(schema);
    return forms.length === 1 ? forms[0] : forms.find((form) => this.#fitsForm(value, form));
  }

  /** Resolves references and branches into a list of alternatives. A reference to itself adds nothing. */
  #formsOf(schema: unknown, seen = new Set<unknown>()): unknown[] {
    if (!isObject(schema)) return [schema];
    if (seen.has(schema)) return [];
    seen.add(schema);
    if (typeof schema.$ref === 'string')
      return this.#formsOf(resolveReference(schema.$ref, this.#document), seen);
    const branches = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    return Array.isArray(branches) ? branches.flatMap((branch) => this.#formsOf(branch, seen)) : [schema];
  }

  /** Distinguishes alternatives by types, constants and property names. */
  #fitsForm(value: unknown, form: unknown): boolean {
    if (!isObject(form)) return form !== false;
    if (form.type !== undefined && ![form.type].flat().some((type) => isOfType(value, type))) return false;
    const constants = constantsOf(form);
    if (constants) return constants.some((constant) => equal(constant, value));
    if (Array.isArray(value)) return value.every((item, index) => this.#fits(item, itemOf(form, index)));
    if (!isObject(value)) return true;
    const required = Array.isArray(form.required) ? form.required : [];
    return (
      required.every((key) => Object.hasOwn(value, String(key))) &&
      Object.keys(value).every((key) => this.#fits(value[key], memberOf(form, key)))
    );
  }

  #fits(value: unknown, schema: unknown): boolean {
    return this.#formsOf(schema).some((form) => this.#fitsForm(value, form));
  }
}

function keysInOrder(value: Record<string, unknown>, form: unknown): string[] {
  const named = isObject(form) && isObject(form.properties) ? Object.keys(form.properties) : [];
  const first = named.filter((key) => Object.hasOwn(value, key));
  const taken = new Set(first);
  return [...first, ...Object.keys(value).filter((key) => !taken.has(key))];
}

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

function isOfType(value: unknown, type: unknown): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isObject(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}

function equal(left: unknown, right: unknown): boolean {
  if (Array.isArray(left) && Array.isArray(right))
    return left.length === right.length && left.every((item, index) => equal(item, right[index]));
  if (!isObject(left) || !isObject(right)) return left === right;
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]))
  );
}
