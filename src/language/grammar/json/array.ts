import { largestOf } from '../../../util/extremes.ts';
import { canonicalJson, isObject } from '../../../util/json.ts';
import { anyOf, type Expression, isNothing, literal, optional, repeat, sequence } from '../expression.ts';
import { type Conjunction, type Located, listOf, type SchemaPart } from './conjunction.ts';
import type { SchemaScope } from './scope.ts';
import { constantsIn } from './types.ts';

/** Most values of an array with unique items: each set of values gets its own rule. */
const maxUnique = 8;

/** The schemas of one part: of the first items, and of all further ones; undefined if it has none. */
interface Items {
  part: SchemaPart;
  first: Located[];
  further: Located | undefined;
}

/** Arrays that match all schemas. All items of `prefixItems` are written. */
export function arrayWithin(all: Conjunction, scope: SchemaScope): Expression {
  if (all.has('contains')) all.refuse('contains', 'cannot be enforced');
  all.checkCounts('minItems', 'maxItems');
  const parts = all.parts.map(itemsOf);
  const schemasAt = (index: number): Located[] =>
    parts.flatMap(({ part, first, further }) => [
      ...((first[index] ?? further) ? [first[index] ?? further].filter((one) => one !== undefined) : []),
      ...unevaluatedAt(parts, part, index),
    ]);
  const listed = largestOf(parts.map(({ first }) => first.length));
  const minimum = all.greatest('minItems') ?? 0;
  let maximum = all.least('maxItems') ?? Number.POSITIVE_INFINITY;
  const first: Expression[] = [];
  for (let index = 0; index < listed && index < maximum; index++) {
    const item = scope.compile(schemasAt(index));
    if (isNothing(item)) maximum = index;
    else first.push(item);
  }
  const mentionsFurther =
    parts.some(({ further }) => further) || all.has('unevaluatedItems') || first.length === 0;
  if (listed > 0 && !mentionsFurther) maximum = Math.min(maximum, first.length);
  const further = maximum > first.length ? scope.compile(schemasAt(listed)) : null;
  if (!further || isNothing(further)) maximum = Math.min(maximum, first.length);
  if (minimum > maximum) return scope.nothing(all, 'minItems', 'is more than the array may have');
  const isUnique = all.values('uniqueItems').includes(true);
  if (isUnique && maximum > 1)
    return uniqueItems(all, { first, minimum, maximum, schemas: schemasAt(listed) }, scope);
  const { layout } = scope;
  const written = layout.listed(first);
  if (!further || maximum === first.length) return layout.enclosed('[', sequence(written), ']');
  const item = scope.defineRule(further);
  const more = (from: number) =>
    repeat(
      sequence([layout.punctuation(','), layout.withSpace(item)]),
      Math.max(0, minimum - from),
      maximum === Number.POSITIVE_INFINITY ? null : maximum - from,
    );
  if (first.length > 0) return layout.enclosed('[', sequence([...written, more(first.length)]), ']');
  const some = sequence([layout.withSpace(item), more(1)]);
  return layout.enclosed('[', minimum > 0 ? some : optional(some), ']');
}

/** Older drafts have the first items in `items`, and the further ones in `additionalItems`. */
function itemsOf(part: SchemaPart): Items {
  const { schema, path } = part;
  const older = Array.isArray(schema.items);
  const keyword = older ? 'items' : 'prefixItems';
  const rest = older ? 'additionalItems' : 'items';
  const further = schema[rest];
  return {
    part,
    first: listOf(part, keyword).map((one, index) => ({ schema: one, path: `${path}/${keyword}/${index}` })),
    further: further === undefined ? undefined : { schema: further, path: `${path}/${rest}` },
  };
}

/** What `unevaluatedItems` of a part says about an item that no schema within it describes. */
function unevaluatedAt(
  parts: readonly Items[],
  { schema, origin, path }: SchemaPart,
  index: number,
): Located[] {
  if (schema.unevaluatedItems === undefined) return [];
  const isEvaluated = parts.some(
    ({ part, first, further }) =>
      (part.origin === origin || part.scopes.includes(origin)) && (further || index < first.length),
  );
  return isEvaluated ? [] : [{ schema: schema.unevaluatedItems, path: `${path}/unevaluatedItems` }];
}

interface UniqueItems {
  first: readonly Expression[];
  minimum: number;
  maximum: number;
  schemas: readonly Located[];
}

/** Arrays of a few constants, each at most once. */
function uniqueItems(
  all: Conjunction,
  { first, minimum, maximum, schemas }: UniqueItems,
  scope: SchemaScope,
): Expression {
  const values = constantsOf(schemas)?.filter((value) => scope.matches(value, schemas));
  if (!values || first.length > 0 || values.length > maxUnique)
    return all.refuse(
      'uniqueItems',
      `can only be enforced for arrays of at most ${maxUnique} constants (items with enum)`,
    );
  if (minimum > values.length)
    return scope.nothing(all, 'minItems', 'is more than there are different items');
  const { layout } = scope;
  const label = scope.newLabel();
  const known = new Set<number>();
  /** What follows when the items of a set, as bits, are written. */
  const after = (used: number, count: number): Expression => {
    const name = `${label} ${used}`;
    if (known.has(used)) return scope.ruleNamed(name);
    known.add(used);
    const comma = count > 0 ? [layout.punctuation(',')] : [];
    const next = values.flatMap((value, index) =>
      used & (1 << index) || count >= maximum
        ? []
        : [
            sequence([
              ...comma,
              layout.withSpace(layout.constant(value)),
              after(used | (1 << index), count + 1),
            ]),
          ],
    );
    return scope.ruleNamed(name, () => anyOf([...(count >= minimum ? [literal('')] : []), ...next]));
  };
  return layout.enclosed('[', after(0, 0), ']');
}

/** The different constants among which the values are; null if the schemas have none. */
function constantsOf(schemas: readonly Located[]): unknown[] | null {
  for (const { schema } of schemas) {
    if (!isObject(schema)) continue;
    const values = constantsIn(schema);
    if (values) return [...new Map(values.map((value) => [canonicalJson(value), value])).values()];
  }
  return null;
}
