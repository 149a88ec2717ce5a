import { isObject } from '../../../util/json.ts';
import type { JsonSchema } from '../../constraint/constraint.ts';
import { resolveReference } from '../../constraint/schema-notes.ts';
import { LanguageError } from '../../error.ts';
import { choiceOf, type Expression, literal, rule } from '../expression.ts';
import { MAXIMUM_SCHEMA_DEPTH } from '../limits.ts';
import { arrayOf, objectWith } from './containers.ts';
import { areDisjoint } from './disjoint.ts';
import { KEYWORDS_OF_TYPE, SchemaReader } from './keywords.ts';
import { compactLayout, type JsonLayout, type SchemaScope } from './layout.ts';
import { numberWithin } from './number.ts';
import { stringWithin } from './string.ts';

/** Most schemas in a `oneOf`: each is built, and compared with the others. */
const MAXIMUM_ONE_OF = 2_000;

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
  #depth = 0;

  /** `label` names the schema in messages. Schemas whose rules are put together need different labels. */
  constructor(schema: JsonSchema, label: string, layout: JsonLayout = compactLayout) {
    this.layout = layout;
    this.#rules = new Map(layout.rules);
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

  called(name: string): Expression {
    return rule(`${this.#label} ${name}`);
  }

  compile(schema: unknown, place: string): Expression {
    if (++this.#depth > MAXIMUM_SCHEMA_DEPTH)
      throw new LanguageError(
        'grammar_too_large',
        `JSON schema, ${this.#label} ${place.slice(0, 200)}: more than ${MAXIMUM_SCHEMA_DEPTH} schemas in each other, through references too: let them lead to their ends in fewer steps`,
      );
    const expression = this.#compile(schema, place);
    this.#depth--;
    return expression;
  }

  #compile(schema: unknown, place: string): Expression {
    if (schema === true) return this.layout.anyValue;
    if (!isObject(schema))
      throw new LanguageError(
        'schema_unsupported',
        `JSON schema, ${this.#label} ${place}: ${JSON.stringify(schema)} admits nothing`,
      );
    const reader = new SchemaReader(schema, `${this.#label} ${place}`);
    if (reader.has('$ref')) return this.#reference(reader);
    if (reader.has('enum') || reader.has('const'))
      return choiceOf(literals(reader).map((value) => this.layout.constant(value)));
    for (const keyword of ['anyOf', 'oneOf', 'allOf'] as const)
      if (reader.has(keyword)) return this.#combined(reader, keyword, place);
    const types = typesOf(reader);
    if (!types) return this.layout.anyValue;
    reader.allowOnly('type', ...types.flatMap((type) => KEYWORDS_OF_TYPE[type] ?? []));
    return choiceOf(types.map((type) => this.#ofType(type, reader, place)));
  }

  #ofType(type: string, reader: SchemaReader, place: string): Expression {
    switch (type) {
      case 'string':
        return stringWithin(reader, this.layout.anyKey);
      case 'number':
      case 'integer':
        return numberWithin(reader, type);
      case 'array':
        return arrayOf(reader, this, place);
      case 'object':
        return objectWith(reader, this, place);
      default:
        return this.layout.valuesOfType.get(type) ?? reader.refuse('type', 'is no JSON type');
    }
  }

  #reference(reader: SchemaReader): Expression {
    reader.allowOnly('$ref');
    const pointer = reader.string('$ref') ?? '';
    const name = `${this.#label} $ref ${pointer}`;
    if (!this.#rules.has(name)) {
      const target =
        resolveReference(pointer, this.#document) ?? reader.refuse('$ref', 'leads nowhere in this schema');
      this.#rules.set(name, literal(''));
      this.#rules.set(name, this.compile(target, pointer));
    }
    return rule(name);
  }

  #combined(reader: SchemaReader, keyword: 'anyOf' | 'oneOf' | 'allOf', place: string): Expression {
    reader.allowOnly(keyword);
    const schemas = reader.list(keyword) ?? [];
    if (schemas.length === 0) reader.refuse(keyword, 'is empty');
    if (keyword === 'allOf' && schemas.length > 1) reader.refuse(keyword, 'joins schemas: write them as one');
    if (keyword === 'oneOf' && schemas.length > MAXIMUM_ONE_OF)
      reader.refuse(keyword, `has more than ${MAXIMUM_ONE_OF} schemas to be told apart: write anyOf`);
    const resolved = schemas.map((schema) =>
      isObject(schema) && typeof schema.$ref === 'string'
        ? resolveReference(schema.$ref, this.#document)
        : schema,
    );
    if (keyword === 'oneOf' && !areDisjoint(resolved))
      reader.refuse(
        keyword,
        'has schemas that one value may fit together: tell them apart by a constant, or write anyOf',
      );
    return choiceOf(schemas.map((schema, index) => this.compile(schema, `${place}/${keyword}/${index}`)));
  }
}

/** The values of `enum` or `const` that have the schema's type, if it names one. */
function literals(reader: SchemaReader): unknown[] {
  reader.allowOnly('enum', 'const', 'type');
  const keyword = reader.has('enum') ? 'enum' : 'const';
  if (reader.has('enum') && reader.has('const')) reader.refuse('const', 'stands beside enum');
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
