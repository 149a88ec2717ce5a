import { isObject } from '../../../util/json.ts';
import type { JsonSchema } from '../../constraint/constraint.ts';
import { LanguageError } from '../../error.ts';
import { choice, type Expression, rule } from '../expression.ts';
import { maxSchemaDepth } from '../limits.ts';
import { arrayOf, objectWith } from './containers.ts';
import { areDisjoint } from './disjoint.ts';
import { KEYWORDS_OF_TYPE, SchemaReader } from './keywords.ts';
import { compactLayout, type JsonLayout, type SchemaScope } from './layout.ts';
import { numberWithin } from './number.ts';
import { stringWithin } from './string.ts';

/** Most schemas in a `oneOf`: each is built, and compared with the others. */
const maxOneOf = 2_000;

interface SchemaOptions {
  /** Names the schema in messages. Schemas whose rules are combined need different labels. */
  label: string;
  /** Default: no white space. */
  layout?: JsonLayout;
  /** Only objects are allowed: other values that the schema admits are dropped. Default false. */
  onlyObjects?: boolean;
}

/**
 * The JSON texts of the values that a schema admits, spelled as by `JSON.stringify`, with the white space of the
 * layout. Properties come in the schema's order, then further ones if it admits them (if it does not mention them, the
 * layout decides). All texts are valid. A keyword that cannot be enforced is refused with a `LanguageError` that names
 * it.
 */
export class SchemaCompiler implements SchemaScope {
  readonly root: Expression;
  readonly layout: JsonLayout;
  readonly #rules: Map<string, Expression>;
  readonly #document: JsonSchema;
  readonly #label: string;
  /** Rules for the targets of references. A target has one rule, however its references are spelled. */
  readonly #targets = new Map<unknown, Expression | null>();
  /** The same for the objects that a target admits; null if it admits none. */
  readonly #objectTargets = new Map<unknown, Expression | null>();
  #depth = 0;

  constructor(schema: JsonSchema, { label, layout = compactLayout, onlyObjects = false }: SchemaOptions) {
    this.layout = layout;
    this.#rules = new Map(layout.rules);
    this.#document = schema;
    this.#label = label;
    const root = this.#compile(schema, '#', onlyObjects);
    if (!root)
      throw this.#unsupported(
        '#',
        'allows no object, but the arguments of a call are an object; send an object schema, such as {"type":"object","properties":{}}',
      );
    this.root = root;
  }

  get rules(): ReadonlyMap<string, Expression> {
    return this.#rules;
  }

  /** Defines a rule, so that an expression with many uses is built once. */
  defineRule(name: string, expression: Expression): Expression {
    const full = `${this.#label} ${name}`;
    this.#rules.set(full, expression);
    return rule(full);
  }

  /** The rule that is defined under this name, now or later. */
  ruleNamed(name: string): Expression {
    return rule(`${this.#label} ${name}`);
  }

  /** `path` is a JSON pointer to the schema, for messages and names of rules. */
  compile(schema: unknown, path: string): Expression {
    return this.#compile(schema, path, false);
  }

  /** Null if the schema admits no object. */
  #compile(schema: unknown, path: string, onlyObjects: false): Expression;
  #compile(schema: unknown, path: string, onlyObjects: boolean): Expression | null;
  #compile(schema: unknown, path: string, onlyObjects: boolean): Expression | null {
    if (++this.#depth > maxSchemaDepth)
      throw new LanguageError(
        'grammar_too_large',
        `JSON schema, ${this.#label} ${path.slice(0, 200)}: schemas are nested more than ${maxSchemaDepth} deep, counting references; use shorter chains`,
      );
    const expression = isObject(schema)
      ? this.#compileObject(new SchemaReader(schema, `${this.#label} ${path}`), path, onlyObjects)
      : this.#compileBoolean(schema, path, onlyObjects);
    this.#depth--;
    return expression;
  }

  #compileBoolean(schema: unknown, path: string, onlyObjects: boolean): Expression | null {
    if (schema === true) return onlyObjects ? this.layout.anyObject : this.layout.anyValue;
    if (onlyObjects) return null;
    throw this.#unsupported(path, `${JSON.stringify(schema)} allows nothing`);
  }

  #compileObject(reader: SchemaReader, path: string, onlyObjects: boolean): Expression | null {
    if (reader.has('$ref')) return this.#reference(reader, onlyObjects);
    if (reader.has('enum') || reader.has('const')) {
      const values = constantsOf(reader).filter((value) => !onlyObjects || isObject(value));
      return values.length === 0 ? null : choice(values.map((value) => this.layout.constant(value)));
    }
    for (const keyword of ['anyOf', 'oneOf', 'allOf'] as const)
      if (reader.has(keyword)) return this.#combined(reader, keyword, path, onlyObjects);
    const types = typesOf(reader);
    if (onlyObjects) {
      if (reader.has('type') && !types?.includes('object')) return null;
      // Unless the type is object alone, keywords may also describe the other types, which are dropped.
      const named = reader.keywords.type === 'object' ? ['object'] : Object.keys(KEYWORDS_OF_TYPE);
      reader.allowOnly('type', ...keywordsOf(named));
      return objectWith(reader, this, path);
    }
    if (!types) return this.layout.anyValue;
    reader.allowOnly('type', ...keywordsOf(types));
    return choice(types.map((type) => this.#ofType(type, reader, path)));
  }

  #ofType(type: string, reader: SchemaReader, path: string): Expression {
    switch (type) {
      case 'string':
        return stringWithin(reader, this.layout.anyKey);
      case 'number':
      case 'integer':
        return numberWithin(reader, type);
      case 'array':
        return arrayOf(reader, this, path);
      case 'object':
        return objectWith(reader, this, path);
      default:
        return this.layout.valuesOfType.get(type) ?? reader.refuse('type', 'is not a JSON type');
    }
  }

  #reference(reader: SchemaReader, onlyObjects: boolean): Expression | null {
    reader.allowOnly('$ref');
    const pointer = reader.string('$ref') ?? '';
    const target =
      resolveReference(pointer, this.#document) ?? reader.refuse('$ref', 'has no target in this schema');
    const rules = onlyObjects ? this.#objectTargets : this.#targets;
    const known = rules.get(target);
    if (known !== undefined) return known;
    const name = `$ref ${pointer}${onlyObjects ? ' objects' : ''}`;
    // Set before the target is compiled, for recursive references. A target that only leads to itself admits no object.
    rules.set(target, onlyObjects ? null : this.ruleNamed(name));
    const body = this.#compile(target, pointer, onlyObjects);
    const called = body && this.defineRule(name, body);
    rules.set(target, called);
    return called;
  }

  #combined(
    reader: SchemaReader,
    keyword: 'anyOf' | 'oneOf' | 'allOf',
    path: string,
    onlyObjects: boolean,
  ): Expression | null {
    reader.allowOnly(keyword);
    const schemas = reader.list(keyword) ?? [];
    if (schemas.length === 0) reader.refuse(keyword, 'is empty');
    if (keyword === 'allOf' && schemas.length > 1)
      reader.refuse(keyword, 'joins schemas: merge them into one');
    if (keyword === 'oneOf' && schemas.length > maxOneOf)
      reader.refuse(keyword, `has more than ${maxOneOf} schemas to distinguish: use anyOf`);
    const kept: unknown[] = [];
    const alternatives: Expression[] = [];
    for (const [index, schema] of schemas.entries()) {
      const expression = this.#compile(schema, `${path}/${keyword}/${index}`, onlyObjects);
      if (!expression) continue;
      alternatives.push(expression);
      const isReference = isObject(schema) && typeof schema.$ref === 'string';
      kept.push(isReference ? resolveReference(String(schema.$ref), this.#document) : schema);
    }
    if (keyword === 'oneOf' && !areDisjoint(kept))
      reader.refuse(
        keyword,
        'has schemas that the same value may match: distinguish them by a constant, or use anyOf',
      );
    return alternatives.length === 0 ? null : choice(alternatives);
  }

  #unsupported(path: string, what: string): LanguageError {
    return new LanguageError('schema_unsupported', `JSON schema, ${this.#label} ${path}: ${what}`);
  }
}

const keywordsOf = (types: readonly string[]) => types.flatMap((type) => KEYWORDS_OF_TYPE[type] ?? []);

/** The values of `enum` or `const` that have the schema's type, if it names one. */
function constantsOf(reader: SchemaReader): unknown[] {
  reader.allowOnly('enum', 'const', 'type');
  const keyword = reader.has('enum') ? 'enum' : 'const';
  if (reader.has('enum') && reader.has('const')) reader.refuse('const', 'cannot be combined with enum');
  const values = keyword === 'enum' ? (reader.list('enum') ?? []) : [reader.keywords.const];
  const types = typesOf(reader);
  const admitted = values.filter((value) => types?.some((type) => isOfType(value, type)) ?? true);
  if (admitted.length === 0) reader.refuse(keyword, 'has no value of the type');
  return admitted;
}

function isOfType(value: unknown, type: string): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isObject(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}

/** The types that a schema names, or that its keywords imply; null if any value is allowed. */
function typesOf(reader: SchemaReader): string[] | null {
  const { type } = reader.keywords;
  if (typeof type === 'string') return [type];
  if (Array.isArray(type) && type.length > 0) {
    const names = type.filter((name) => typeof name === 'string');
    return names.includes('number') ? names.filter((name) => name !== 'integer') : names;
  }
  if (type !== undefined) return reader.refuse('type', 'is not a JSON type');
  const implied = ['string', 'number', 'array', 'object'].filter((name) =>
    KEYWORDS_OF_TYPE[name]?.some((keyword) => reader.has(keyword)),
  );
  if (implied.length === 0) {
    reader.allowOnly('enum', 'const');
    return null;
  }
  return implied;
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
