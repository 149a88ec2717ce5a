import type { JsonSchema } from '../../../engine.ts';
import { EngineError } from '../../../engine-error.ts';
import { choice, type Expression, literal, rule } from '../expression.ts';
import { anyValue, jsonRules, valuesOfType } from './any-value.ts';
import { arrayOf } from './array.ts';
import { areDisjoint } from './disjoint.ts';
import { isRecord, KEYWORDS_OF_TYPE, SchemaReader } from './keywords.ts';
import { objectWith } from './object.ts';
import { numberWithin, stringWithin } from './scalar.ts';

/** Compiles the parts of a schema; what the files of the types need of the whole. */
export interface SchemaScope {
  compile(schema: unknown, place: string): Expression;
  /** Makes a rule, so that an expression used often is laid out once. */
  share(name: string, expression: Expression): Expression;
}

/**
 * The JSON texts, without spaces and spelled as `JSON.stringify` would, of values that a schema admits: properties
 * in the schema's order, and none but those named. All texts are valid; a keyword that cannot be enforced is
 * refused with an `EngineError` that names it.
 */
export class SchemaCompiler implements SchemaScope {
  readonly root: Expression;
  readonly #rules = new Map<string, Expression>(jsonRules);
  readonly #document: JsonSchema;
  readonly #label: string;

  /** `label` is what messages call the schema; it must differ between schemas whose rules are put together. */
  constructor(schema: JsonSchema, label: string) {
    this.#document = schema;
    this.#label = label;
    this.root = this.compile(schema, '#');
  }

  get rules(): ReadonlyMap<string, Expression> {
    return this.#rules;
  }

  share(name: string, expression: Expression): Expression {
    const full = `${this.#label} ${name}`;
    this.#rules.set(full, expression);
    return rule(full);
  }

  compile(schema: unknown, place: string): Expression {
    if (schema === true) return anyValue;
    if (!isRecord(schema))
      throw new EngineError(
        'schema_unsupported',
        `JSON schema, ${this.#label} ${place}: ${JSON.stringify(schema)} admits nothing`,
      );
    const reader = new SchemaReader(schema, `${this.#label} ${place}`);
    if (reader.has('$ref')) return this.#reference(reader);
    if (reader.has('enum') || reader.has('const')) return literals(reader);
    for (const keyword of ['anyOf', 'oneOf', 'allOf'] as const)
      if (reader.has(keyword)) return this.#combined(reader, keyword, place);
    const types = typesOf(reader);
    if (!types) return anyValue;
    reader.allowOnly('type', ...types.flatMap((type) => KEYWORDS_OF_TYPE[type] ?? []));
    return choice(...types.map((type) => this.#ofType(type, reader, place)));
  }

  #ofType(type: string, reader: SchemaReader, place: string): Expression {
    switch (type) {
      case 'string':
        return stringWithin(reader);
      case 'number':
      case 'integer':
        return numberWithin(reader, type);
      case 'array':
        return arrayOf(reader, this, place);
      case 'object':
        return objectWith(reader, this, place);
      default:
        return valuesOfType.get(type) ?? reader.refuse('type', 'is no JSON type');
    }
  }

  #reference(reader: SchemaReader): Expression {
    reader.allowOnly('$ref');
    const pointer = reader.string('$ref') ?? '';
    const name = `${this.#label} $ref ${pointer}`;
    if (!this.#rules.has(name)) {
      const target = this.#resolve(pointer) ?? reader.refuse('$ref', 'leads nowhere in this schema');
      this.#rules.set(name, literal(''));
      this.#rules.set(name, this.compile(target, pointer));
    }
    return rule(name);
  }

  /** A JSON pointer (RFC 6901) into this document, as a URI fragment. */
  #resolve(pointer: string): unknown {
    if (pointer !== '#' && !pointer.startsWith('#/')) return undefined;
    let target: unknown = this.#document;
    for (const step of pointer.split('/').slice(1)) {
      const key = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
      if (Array.isArray(target)) target = target[Number(key)];
      else target = isRecord(target) && Object.hasOwn(target, key) ? target[key] : undefined;
    }
    return target;
  }

  #combined(reader: SchemaReader, keyword: 'anyOf' | 'oneOf' | 'allOf', place: string): Expression {
    reader.allowOnly(keyword);
    const schemas = reader.list(keyword) ?? [];
    if (schemas.length === 0) reader.refuse(keyword, 'is empty');
    if (keyword === 'allOf' && schemas.length > 1) reader.refuse(keyword, 'joins schemas: write them as one');
    const resolved = schemas.map((schema) =>
      isRecord(schema) && typeof schema.$ref === 'string' ? this.#resolve(schema.$ref) : schema,
    );
    if (keyword === 'oneOf' && !areDisjoint(resolved))
      reader.refuse(
        keyword,
        'has schemas that one value may fit together: tell them apart by a constant, or write anyOf',
      );
    return choice(...schemas.map((schema, index) => this.compile(schema, `${place}/${keyword}/${index}`)));
  }
}

/** The values of `enum` or `const` that the type, where there is one, admits. */
function literals(reader: SchemaReader): Expression {
  reader.allowOnly('enum', 'const', 'type');
  const keyword = reader.has('enum') ? 'enum' : 'const';
  if (reader.has('enum') && reader.has('const')) reader.refuse('const', 'stands beside enum');
  const values = keyword === 'enum' ? (reader.list('enum') ?? []) : [reader.keywords.const];
  const types = typesOf(reader);
  const admitted = values.filter((value) => types?.some((type) => isOfType(value, type)) ?? true);
  if (admitted.length === 0) reader.refuse(keyword, 'has no value of the type');
  return choice(...admitted.map((value) => literal(JSON.stringify(value))));
}

function isOfType(value: unknown, type: string): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isRecord(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}

/** The types a schema names, or the one whose keywords it uses; null where any value will do. */
function typesOf(reader: SchemaReader): string[] | null {
  const { type } = reader.keywords;
  if (typeof type === 'string') return [type];
  if (Array.isArray(type) && type.length > 0) {
    const names = type.filter((name) => typeof name === 'string');
    return names.includes('number') ? names.filter((name) => name !== 'integer') : names;
  }
  if (type !== undefined) return reader.refuse('type', 'is no JSON type');
  const implied = ['string', 'number', 'array', 'object'].filter((name) =>
    KEYWORDS_OF_TYPE[name]?.some((keyword) => reader.has(keyword)),
  );
  if (implied.length === 0) {
    reader.allowOnly('enum', 'const');
    return null;
  }
  return implied;
}
