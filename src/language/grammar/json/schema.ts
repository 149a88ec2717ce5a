import { LanguageError } from '../../error.ts';
import type { JsonSchema } from '../constraint.ts';
import { anyOf, choice, type Expression, isNothing, NOTHING, rule } from '../expression.ts';
import { maxSchemaDepth } from '../limits.ts';
import { withoutUnproductive } from '../productive.ts';
import { type Combination, combinationOf, exclusive, overlap, remainderOf } from './combinations.ts';
import {
  Conjunction,
  isConstraining,
  type Located,
  listOf,
  refusal,
  type SchemaPart,
} from './conjunction.ts';
import { InstanceCheck } from './instance.ts';
import { KeywordArguments } from './keyword-arguments.ts';
import { REFUSED } from './keywords.ts';
import { compactLayout, type JsonLayout, type ObjectLayout } from './layout.ts';
import { Negation } from './negation.ts';
import { ParameterArguments } from './parameter-arguments.ts';
import { References } from './references.ts';
import { SchemaParts, scopesWithin, tooDeep } from './schema-parts.ts';
import type { SchemaScope } from './scope.ts';
import { typesOf } from './types.ts';
import { valuesOfType } from './values-of-type.ts';

/** Most alternatives that are merged with schemas beside them. */
const maxMerged = 5_000;

interface SchemaOptions {
  /** Names the schema in messages. Schemas whose rules are combined need different labels. */
  label: string;
  /** Default: no white space. */
  layout?: JsonLayout;
  /** Only objects are allowed: other values that the schema admits are dropped. Default false. */
  onlyObjects?: boolean;
  /** The members of the object itself are arguments of a call in this notation. With `onlyObjects`. Default: an object. */
  asArguments?: 'python' | 'parameters' | undefined;
}

/** A conjunction that is compiled, or being compiled. */
interface Known {
  name: string;
  /** Null while it is being compiled. */
  expression: Expression | null;
  isCalled: boolean;
}

/**
 * The JSON texts of the values that a schema admits, spelled as by `JSON.stringify`, with the white space of the
 * layout. Properties come in the schema's order, then further ones if it admits them (if it does not mention them, the
 * layout decides). All texts are valid. A keyword that cannot be enforced is refused with a `LanguageError` that names
 * it.
 *
 * Schemas that hold together (`allOf`, `$ref`, and the keywords beside them) are merged. Where a keyword allows several
 * kinds of values (`anyOf`, `oneOf`, `if`, `not`, dependencies), each of them is merged with all that is beside it.
 */
export class SchemaCompiler implements SchemaScope {
  readonly root: Expression;
  readonly rules: ReadonlyMap<string, Expression>;
  /** The one of the value that is being compiled. */
  layout: JsonLayout;
  readonly #ownLayout: JsonLayout;
  readonly #rules: Map<string, Expression>;
  readonly #references: References;
  readonly #negation: Negation;
  readonly #parts: SchemaParts;
  readonly #label: string;
  /** With `onlyObjects`, what all schemas of the object itself hold together with, and no others. */
  readonly #objects: JsonSchema = { type: 'object' };
  readonly #arguments: KeywordArguments | undefined;
  /** Conjunctions by the numbers of their schemas. Equal ones are compiled once, so that recursive ones have an end. */
  readonly #known = new Map<string, Known>();
  /** Why a part of the schema admits nothing: the first reason. */
  #reason: { error: LanguageError; depth: number } | null = null;
  /** Alternatives that have been merged with schemas beside them. */
  #merged = 0;
  #labels = 0;
  #depth = 0;

  constructor(
    schema: JsonSchema,
    { label, layout = compactLayout, onlyObjects = false, asArguments }: SchemaOptions,
  ) {
    this.layout = layout;
    this.#ownLayout = layout;
    this.#arguments =
      asArguments === 'python'
        ? new KeywordArguments(layout, label)
        : asArguments && new ParameterArguments(layout, label, schema);
    this.#rules = new Map(layout.rules);
    this.#references = new References(schema);
    this.#negation = new Negation(this.#references);
    this.#label = label;
    this.#parts = new SchemaParts(this.#references, label, (path) =>
      this.#setReason(
        () => new LanguageError('schema_unsupported', `JSON schema, ${path}: false allows nothing.`),
      ),
    );
    const objects = { schema: this.#objects, path: '#' };
    const root = this.compile([{ schema, path: `${label} #` }, ...(onlyObjects ? [objects] : [])]);
    const productive = withoutUnproductive({ start: root, rules: this.#rules });
    if (isNothing(productive.start)) throw this.#empty(onlyObjects);
    this.root = productive.start;
    this.rules = productive.rules;
  }

  #empty(onlyObjects: boolean): LanguageError {
    if (onlyObjects)
      return new LanguageError(
        'schema_unsupported',
        `JSON schema, ${this.#label} #: allows no object, but the arguments of a call are an object. Send an object schema, such as {"type":"object","properties":{}}.`,
      );
    return (
      this.#reason?.error ??
      new LanguageError(
        'grammar_empty',
        `JSON schema, ${this.#label} #: allows no value, because it never ends.`,
      )
    );
  }

  objectLayout(all: Conjunction): ObjectLayout {
    return (all.parts.some(({ schema }) => schema === this.#objects) && this.#arguments) || this.layout;
  }

  defineRule(expression: Expression): Expression {
    return expression.kind === 'rule' ? expression : this.ruleNamed(this.newLabel(), () => expression);
  }

  newLabel(): string {
    return `${this.#label} ${this.#labels++}`;
  }

  ruleNamed(name: string, body: (() => Expression) | null = null): Expression {
    if (body) this.#rules.set(name, body());
    return rule(name);
  }

  nothing(all: Conjunction, keyword: string, why: string): Expression {
    const part = all.parts.find(({ schema }) => schema[keyword] !== undefined) ?? all.parts[0];
    this.#setReason(() => refusal(part?.path ?? '#', keyword, part?.schema[keyword], why));
    return NOTHING;
  }

  /** The first reason of those that are closest to the root. */
  #setReason(error: () => LanguageError): void {
    if (!this.#reason || this.#depth < this.#reason.depth)
      this.#reason = { error: error(), depth: this.#depth };
  }

  matches(value: unknown, schemas: readonly Located[]): boolean {
    return schemas.every(({ schema, path }) =>
      new InstanceCheck(this.#references, path).matches(value, schema),
    );
  }

  compile(schemas: readonly Located[]): Expression {
    if (++this.#depth > maxSchemaDepth) throw tooDeep(schemas[0]?.path ?? '#');
    const parts = this.#parts.gather(schemas);
    const expression = parts ? this.#once(parts) : NOTHING;
    this.#depth--;
    return expression;
  }

  compileDistinct(schemas: readonly Located[]): Expression {
    const { distinct } = this.layout;
    for (const [name, body] of distinct.rules) this.#rules.set(name, body);
    return this.compileIn(distinct, schemas);
  }

  compileIn(layout: JsonLayout, schemas: readonly Located[]): Expression {
    const outer = this.layout;
    this.layout = layout;
    const expression = this.compile(schemas);
    this.layout = outer;
    return expression;
  }

  /** Compiles a conjunction, or calls the rule of an equal one. */
  #once(parts: readonly SchemaPart[]): Expression {
    if (parts.length === 0) return this.layout.anyValue;
    const key = `${parts.map((part) => this.#parts.keyOf(part)).join(' ')}${this.layout === this.#ownLayout ? '' : ` in ${this.#parts.numberOf(this.layout)}`}`;
    const known = this.#known.get(key);
    if (known) {
      const { expression, name } = known;
      if (expression && (isNothing(expression) || expression.kind === 'rule')) return expression;
      if (expression && !known.isCalled) this.ruleNamed(name, () => expression);
      known.isCalled = true;
      return rule(name);
    }
    const entry: Known = { name: this.newLabel(), expression: null, isCalled: false };
    this.#known.set(key, entry);
    const expression = this.#conjunction(new Conjunction(parts));
    const isRecursive = entry.isCalled;
    entry.expression = isRecursive ? this.ruleNamed(entry.name, () => expression) : expression;
    return entry.expression;
  }

  #conjunction(all: Conjunction): Expression {
    for (const [keyword, why] of REFUSED) if (all.has(keyword)) all.refuse(keyword, why);
    if (all.has('enum') || all.has('const')) return this.#constants(all);
    const types = typesOf(all);
    if (types?.length === 0)
      return this.nothing(all, 'type', 'is not the type that the schemas applied with it allow');
    const combination = combinationOf(all, this.#negation);
    if (combination) return this.#combined(all, combination);
    if (!types && !all.has('not')) return this.layout.anyValue;
    const named = types ?? ['string', 'number', 'boolean', 'null', 'object', 'array'];
    return anyOf(named.map((type) => valuesOfType(type, all, this)));
  }

  #constants(all: Conjunction): Expression {
    const part = all.parts.find(({ schema }) => schema.enum !== undefined || schema.const !== undefined);
    if (!part) return NOTHING;
    const keyword = part.schema.enum === undefined ? 'const' : 'enum';
    const values = keyword === 'enum' ? listOf(part, 'enum') : [part.schema.const];
    const admitted = values.filter((value) => this.matches(value, all.parts));
    if (admitted.length === 0)
      return this.nothing(all, keyword, 'has no value that matches the schemas applied with it');
    for (const value of admitted)
      if (!isExact(value))
        throw refusal(
          part.path,
          keyword,
          value,
          'has a number beyond 2^53, where doubles lose digits: make it a string, or leave the keyword out',
        );
    return choice(admitted.map((value) => this.objectLayout(all).constant(value)));
  }

  #combined(all: Conjunction, combination: Combination): Expression {
    const { part } = combination;
    const index = all.parts.indexOf(part);
    const rest = {
      ...part,
      schema: this.#parts.remainder(part.schema, combination.keywords, () => remainderOf(combination)),
    };
    const scopes = scopesWithin(part);
    if (all.parts.length > 1 || isConstraining(rest.schema)) this.#merged += combination.alternatives.length;
    if (this.#merged > maxMerged)
      throw new LanguageError(
        'grammar_too_large',
        `JSON schema, ${part.path}: its ${combination.keywords[0]} is merged with the schemas applied with it, which makes more than ${maxMerged} alternatives. Use fewer alternatives beside each other.`,
      );
    const compileAll = (alternatives: readonly Located[][]) =>
      alternatives.map((alternative) =>
        this.compile([
          ...all.parts.slice(0, index),
          ...(isConstraining(rest.schema) ? [rest] : []),
          ...alternative.map((one) => ({ scopes, ...one })),
          ...all.parts.slice(index + 1),
        ]),
      );
    const compiled = compileAll(combination.alternatives);
    if (!combination.isExclusive || compiled.every(isNothing)) return anyOf(compiled);
    for (const byNames of [false, true]) {
      const { alternatives, distinct, isPartial } = exclusive(combination, all, this.#negation, byNames);
      if (distinct === alternatives) return anyOf(compiled);
      // Nothing is written of the others, but what they allow may be valid, so they are told from these.
      const written = new Set(
        combination.alternatives.filter((_, at) => !isNothing(compiled[at] ?? NOTHING)),
      );
      const alone = compileAll(distinct.filter((_, at) => written.has(alternatives[at] ?? [])));
      const isLost = isPartial ? alone.some(isNothing) : alone.every(isNothing);
      if (!isLost) return anyOf(alone);
    }
    throw overlap(part);
  }
}

/** Whether all numbers in a constant are the ones that were written, as far as can be seen once they are doubles. */
function isExact(value: unknown): boolean {
  if (typeof value === 'number')
    return Number.isFinite(value) && !(Number.isInteger(value) && !Number.isSafeInteger(value));
  return typeof value !== 'object' || value === null || Object.values(value).every(isExact);
}
