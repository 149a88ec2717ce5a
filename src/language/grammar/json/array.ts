import { largestOf } from '../../../util/extremes.ts';
import { maxDistinct } from '../distinct-list.ts';
import { type Expression, isNothing, literal, optional, repeat, sequence } from '../expression.ts';
import { type Conjunction, type Located, listOf, type SchemaPart } from './conjunction.ts';
import type { SchemaScope } from './scope.ts';

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
  const isUnique = all.values('uniqueItems').includes(true) && maximum > 1;
  if (isUnique && first.length > 0) all.refuse('uniqueItems', 'cannot be enforced beside prefixItems');
  if (isUnique && minimum > maxDistinct)
    all.refuse('minItems', `is more than ${maxDistinct}, which an array with uniqueItems cannot have`);
  const compiled = () =>
    isUnique ? scope.compileDistinct(schemasAt(listed)) : scope.compile(schemasAt(listed));
  const further = maximum > first.length ? compiled() : null;
  if (!further || isNothing(further)) maximum = Math.min(maximum, first.length);
  if (minimum > maximum) return scope.nothing(all, 'minItems', 'is more than the array may have');
  const { layout } = scope;
  const written = layout.listed(first);
  if (!further || maximum === first.length) return layout.enclosed('[', sequence(written), ']');
  const item = scope.defineRule(further);
  const most = (from: number) => (maximum === Number.POSITIVE_INFINITY ? null : maximum - from);
  const more = (from: number) =>
    repeat(
      sequence([layout.punctuation(','), layout.withSpace(item)]),
      Math.max(0, minimum - from),
      most(from),
    );
  if (first.length > 0) return layout.enclosed('[', sequence([...written, more(first.length)]), ']');
  const separator = sequence([layout.withSpace(literal('')), layout.punctuation(',')]);
  const some = isUnique
    ? layout.withSpace({ kind: 'distinct', item, separator, minimum: Math.max(1, minimum), maximum: most(0) })
    : sequence([layout.withSpace(item), more(1)]);
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
      (part.origin === origin || part.scopes.includes(origin)) &&
      (further ||
        (part.origin !== origin && part.schema.unevaluatedItems !== undefined) ||
        index < first.length),
  );
  return isEvaluated ? [] : [{ schema: schema.unevaluatedItems, path: `${path}/unevaluatedItems` }];
}
