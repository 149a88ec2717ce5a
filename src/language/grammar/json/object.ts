import { isObject } from '../../../util/json.ts';
import { anyOf, type Expression, isNothing, NOTHING } from '../expression.ts';
import { type Conjunction, type Located, namesOf, type SchemaPart, schemasOf } from './conjunction.ts';
import { matchesPattern } from './instance.ts';
import { argumentOtherThan, KeywordArguments } from './keyword-arguments.ts';
import { pointerStep } from './keywords.ts';
import type { ObjectLayout } from './layout.ts';
import { type Member, membersOf } from './members.ts';
import { keyOtherThan } from './other-key.ts';
import type { SchemaScope } from './scope.ts';

/** Most different patterns of property names: each set of them that a name may match has a rule. */
const maxPatterns = 4;

/** The schemas of one part for the properties of an object. */
interface Properties {
  part: SchemaPart;
  named: Map<string, unknown>;
  patterns: [pattern: string, schema: unknown][];
}

/** Objects that match all schemas: named properties in the schemas' order, then further ones. */
export function objectWithin(all: Conjunction, scope: SchemaScope): Expression {
  return new ObjectCompiler(all, scope).compile();
}

class ObjectCompiler {
  readonly #all: Conjunction;
  readonly #scope: SchemaScope;
  readonly #layout: ObjectLayout;
  readonly #parts: Properties[];
  readonly #patterns: string[];
  readonly #excluded: Set<string>;
  /** The schemas of all names. */
  readonly #keys: Located[];

  constructor(all: Conjunction, scope: SchemaScope) {
    all.checkCounts('minProperties', 'maxProperties');
    this.#all = all;
    this.#scope = scope;
    this.#layout = scope.objectLayout(all);
    this.#parts = all.parts.map((part) => ({
      part,
      named: new Map(schemasOf(part, 'properties')),
      patterns: schemasOf(part, 'patternProperties'),
    }));
    this.#patterns = [
      ...new Set(this.#parts.flatMap(({ patterns }) => patterns.map(([pattern]) => pattern))),
    ];
    if (this.#patterns.length > maxPatterns)
      all.refuse('patternProperties', `has more than ${maxPatterns} different patterns`);
    this.#excluded = new Set(all.values('not').flatMap((not) => requiredBy(not)));
    this.#keys = all.parts.flatMap(({ schema, path }) =>
      schema.propertyNames === undefined
        ? []
        : [{ schema: schema.propertyNames, path: `${path}/propertyNames` }],
    );
  }

  compile(): Expression {
    const all = this.#all;
    const required = new Set(all.parts.flatMap((part) => namesOf(part, 'required')));
    const names = [...new Set([...this.#parts.flatMap(({ named }) => [...named.keys()]), ...required])];
    const { isDistinct } = this.#scope.layout;
    if (isDistinct) names.sort();
    const members: Member[] = [];
    for (const name of names) {
      const value = this.#valueOf(name);
      if (!isNothing(value))
        members.push({
          text: this.#layout.property(name, value),
          required: required.has(name),
        });
      else if (required.has(name))
        return this.#scope.nothing(all, 'required', `has "${name}", which may have no value`);
    }
    const further = this.#further(names);
    const minimum = all.greatest('minProperties') ?? 0;
    const maximum = all.least('maxProperties');
    const content = membersOf(members, isDistinct && names.length > 0 ? null : further, {
      minimum,
      maximum,
      mostFurther: isDistinct ? 1 : Number.POSITIVE_INFINITY,
      separator: this.#layout.separator,
      scope: this.#scope,
    });
    if (!isNothing(content)) return this.#layout.object(content);
    if (further && Math.max(minimum, required.size) <= (maximum ?? Number.POSITIVE_INFINITY))
      all.refuse('minProperties', 'cannot be enforced with more than one property without a name of its own');
    return this.#scope.nothing(all, 'minProperties', 'allows no object');
  }

  #valueOf(name: string): Expression {
    if (this.#excluded.has(name) || !this.#scope.matches(name, this.#keys)) return NOTHING;
    const matched = this.#patterns.filter((pattern) => matchesPattern(pattern, name, this.#all.path));
    return this.#compile(name, this.#schemasOf(matched, name));
  }

  #compile(name: string | null, schemas: readonly Located[]): Expression {
    const scope = this.#scope;
    return this.#layout.argument
      ? this.#layout.argument(name, schemas, (layout, some) => scope.compileIn(layout, some))
      : scope.compile(schemas);
  }

  /** The schemas of a property whose name matches some patterns. `name`: null if it is not named. */
  #schemasOf(matched: readonly string[], name: string | null): Located[] {
    return this.#parts.flatMap((properties) => {
      const { part, named, patterns } = properties;
      const { schema, path } = part;
      const found: Located[] = [];
      if (name !== null && named.has(name))
        found.push({ schema: named.get(name), path: `${path}/properties/${pointerStep(name)}` });
      for (const [pattern, one] of patterns)
        if (matched.includes(pattern))
          found.push({ schema: one, path: `${path}/patternProperties/${pointerStep(pattern)}` });
      if (found.length === 0 && schema.additionalProperties !== undefined)
        found.push({ schema: schema.additionalProperties, path: `${path}/additionalProperties` });
      if (schema.unevaluatedProperties !== undefined && !this.#isEvaluated(part, matched, name))
        found.push({ schema: schema.unevaluatedProperties, path: `${path}/unevaluatedProperties` });
      return found;
    });
  }

  /** Whether a schema within the part describes the property. */
  #isEvaluated({ origin }: SchemaPart, matched: readonly string[], name: string | null): boolean {
    return this.#parts.some(
      ({ part, named, patterns }) =>
        (part.origin === origin || part.scopes.includes(origin)) &&
        (part.schema.additionalProperties !== undefined ||
          (part.origin !== origin && part.schema.unevaluatedProperties !== undefined) ||
          (name !== null && named.has(name)) ||
          patterns.some(([pattern]) => matched.includes(pattern))),
    );
  }

  /** A member with any other name; null if there is none. */
  #further(names: readonly string[]): Expression | null {
    const all = this.#all;
    const mentions = all.has('additionalProperties') || all.has('unevaluatedProperties');
    const isClosed =
      this.#scope.layout.closed && !mentions && (all.has('properties') || all.has('patternProperties'));
    const taken = [...new Set([...names, ...this.#excluded])];
    const found: Expression[] = [];
    for (const matched of subsets(this.#patterns)) {
      if (matched.length === 0 && isClosed) continue;
      const schemas = this.#schemasOf(matched, null);
      if (schemas.some(({ schema }) => schema === false)) continue;
      const value = this.#compile(null, schemas);
      if (isNothing(value)) continue;
      const key = this.#keyOf(taken, matched);
      if (!isNothing(key))
        found.push(this.#layout.member(this.#scope.defineRule(key), this.#scope.defineRule(value)));
    }
    return found.length === 0 ? null : this.#scope.defineRule(anyOf(found));
  }

  /** Names that match exactly these patterns and are not taken. */
  #keyOf(taken: readonly string[], matched: readonly string[]): Expression {
    const { path } = this.#all;
    if (this.#layout instanceof KeywordArguments) {
      for (const keyword of ['propertyNames', 'patternProperties'])
        if (this.#all.has(keyword))
          this.#all.refuse(
            keyword,
            'cannot be enforced for the arguments of calls as this model writes them',
          );
      return argumentOtherThan(taken, this.#scope);
    }
    if (this.#keys.length === 0 && this.#patterns.length === 0)
      return taken.length === 0 ? this.#scope.layout.anyKey : keyOtherThan(taken, this.#scope, path);
    return this.#scope.compile([
      ...this.#keys,
      { schema: { type: 'string', ...(taken.length > 0 ? { not: { enum: taken } } : {}) }, path },
      ...this.#patterns.map((pattern) => ({
        schema: matched.includes(pattern) ? { pattern } : { type: 'string', not: { pattern } },
        path: `${path}/patternProperties`,
      })),
    ]);
  }
}

const requiredBy = (not: unknown): string[] =>
  isObject(not) && Array.isArray(not.required) ? not.required.map(String) : [];

function subsets(items: readonly string[]): string[][] {
  return items.reduce<string[][]>((sets, item) => sets.flatMap((set) => [set, [...set, item]]), [[]]);
}
