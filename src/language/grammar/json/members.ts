import { LanguageError } from '../../error.ts';
import { anyOf, type Expression, literal, NOTHING, repeat, sequence } from '../expression.ts';
import type { SchemaScope } from './scope.ts';

/** Most rules for the members of an object with minProperties or maxProperties. */
const maxCounted = 20_000;

export interface Member {
  text: Expression;
  required: boolean;
}

interface MemberBounds {
  minimum: number;
  maximum: number | null;
  /** Most further members. */
  mostFurther: number;
  separator: Expression;
  scope: SchemaScope;
}

/**
 * The members of an object in their order, and then any number of `further` ones, with a count between two bounds. The
 * first one that is written has no comma before it.
 */
export function membersOf(
  members: readonly Member[],
  further: Expression | null,
  { minimum, maximum, mostFurther, separator, scope }: MemberBounds,
): Expression {
  const needed = members.filter(({ required }) => required).length;
  const most = members.length + (further ? mostFurther : 0);
  const least = minimum > needed ? minimum : 0;
  const limit = maximum !== null && maximum < most ? maximum : null;
  // Beyond these counts, nothing depends on the count.
  const cap = Math.max(1, limit ?? least);
  if (members.length * cap > maxCounted)
    throw new LanguageError(
      'grammar_too_large',
      `An object of ${members.length} properties, counted up to ${cap}, needs more than ${maxCounted} rules. Use smaller minProperties and maxProperties.`,
    );
  const comma = separator;
  const isOver = (count: number) => limit !== null && count > limit;
  const end = (count: number): Expression => {
    if (isOver(count)) return NOTHING;
    // Names of further members may repeat, so only one of them is sure to count.
    const missing = Math.max(0, least - count);
    if (!further) return missing === 0 ? literal('') : NOTHING;
    if (missing > 1) return NOTHING;
    const most = Math.min(limit === null ? Number.POSITIVE_INFINITY : limit - count, mostFurther);
    if (most === 0) return missing === 0 ? literal('') : NOTHING;
    const room = (before: number) => (most === Number.POSITIVE_INFINITY ? null : most - before);
    const next = sequence([comma, further]);
    if (count > 0) return repeat(next, missing, room(0));
    const some = sequence([further, repeat(next, 0, room(1))]);
    return missing > 0 ? some : anyOf([literal(''), some]);
  };
  /** What follows when so many members are written; the index is the count. */
  let following = Array.from({ length: cap + 1 }, (_, count) => end(count));
  /** What an object begins with, for each member that may be the first. */
  let beginnings: Expression[] = [following[0] ?? NOTHING];
  for (const { text, required } of [...members].reverse()) {
    const after = (count: number): Expression =>
      limit !== null && count > limit ? NOTHING : (following[Math.min(count, cap)] ?? NOTHING);
    const written = (count: number): Expression => {
      const rest = after(count + 1);
      return rest === NOTHING ? NOTHING : sequence([...(count > 0 ? [comma] : []), text, rest]);
    };
    beginnings = required ? [written(0)] : [...beginnings, written(0)];
    following = following.map((rest, count) => {
      if (count === 0) return NOTHING;
      const one = required ? written(count) : anyOf([written(count), rest]);
      return one === NOTHING ? NOTHING : scope.defineRule(one);
    });
  }
  return anyOf(beginnings);
}
