import { type Expression, literal, optional, repeat, sequence, sequenceOf } from '../expression.ts';
import type { SchemaReader } from './keywords.ts';
import type { JsonLayout } from './layout.ts';
import type { SchemaScope } from './schema.ts';

/** Arrays with the items a schema says. Where it lists the first ones, all of those are written. */
export function arrayOf(reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  if (reader.keywords.uniqueItems === true) reader.refuse('uniqueItems', 'cannot be enforced');
  if (reader.has('additionalItems'))
    reader.refuse('additionalItems', 'is of an older draft: write prefixItems and items');
  if (Array.isArray(reader.keywords.items)) reader.refuse('items', 'is of an older draft: write prefixItems');
  const first = (reader.list('prefixItems') ?? []).map((schema, index) =>
    scope.compile(schema, `${place}/prefixItems/${index}`),
  );
  const { items } = reader.keywords;
  const closed = items === false || (items === undefined && first.length > 0);
  const minimum = reader.count('minItems') ?? 0;
  const maximum = closed ? first.length : reader.count('maxItems');
  if (first.length > (reader.count('maxItems') ?? first.length))
    reader.refuse('maxItems', 'is below prefixItems');
  if (maximum !== null && minimum > maximum) reader.refuse('minItems', 'is more than the array may have');
  const rest = closed ? null : scope.share(`${place}/items`, scope.compile(items ?? true, `${place}/items`));
  return sequence(scope.layout.mark('['), written(first, rest, minimum, maximum, scope.layout), literal(']'));
}

function written(
  first: Expression[],
  rest: Expression | null,
  minimum: number,
  maximum: number | null,
  layout: JsonLayout,
): Expression {
  const comma = layout.mark(',');
  const listed = first.flatMap((item, index) =>
    index === 0 ? [layout.spaced(item)] : [comma, layout.spaced(item)],
  );
  if (!rest) return sequenceOf(listed);
  const further = sequence(comma, layout.spaced(rest));
  const most = (taken: number) => (maximum === null ? null : maximum - taken);
  if (first.length > 0)
    return sequenceOf([...listed, repeat(further, Math.max(0, minimum - first.length), most(first.length))]);
  if (maximum === 0) return literal('');
  const some = sequence(layout.spaced(rest), repeat(further, Math.max(0, minimum - 1), most(1)));
  return minimum > 0 ? some : optional(some);
}
