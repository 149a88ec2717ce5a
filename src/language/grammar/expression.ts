import { largestOf, smallestOf } from '../../util/extremes.ts';
import { getOrInsert } from '../../util/get-or-insert.ts';

/** Inclusive range of code points. */
export type CodePointRange = readonly [first: number, last: number];

/** A language over text. Rules have names so that they can be recursive. */
export type Expression =
  | { kind: 'literal'; text: string }
  | { kind: 'characters'; ranges: readonly CodePointRange[] }
  | { kind: 'sequence'; parts: readonly Expression[] }
  | { kind: 'choice'; alternatives: readonly Expression[] }
  | { kind: 'repeat'; body: Expression; minimum: number; maximum: number | null }
  | { kind: 'rule'; name: string }
  /** The inside of a JSON string of at most so many characters. `isPlain`: a text without escapes. */
  | { kind: 'counted'; body: Expression; maximum: number; isPlain?: boolean }
  | DistinctItems;

/** At least one item, with separators between them, and no two items with the same text. `maximum`: null for no bound. */
interface DistinctItems {
  kind: 'distinct';
  item: Expression;
  separator: Expression;
  minimum: number;
  maximum: number | null;
}

/** A start expression, and the rules it calls by name. */
export interface GrammarSource {
  start: Expression;
  rules: ReadonlyMap<string, Expression>;
}

const LAST_CODE_POINT = 0x10ffff;
export const ANY_CHARACTER: readonly CodePointRange[] = [[0, LAST_CODE_POINT]];

export const literal = (text: string): Expression => ({ kind: 'literal', text });
export const characters = (ranges: readonly CodePointRange[]): Expression => ({ kind: 'characters', ranges });
export const sequence = (parts: readonly Expression[]): Expression => ({ kind: 'sequence', parts });
export const choice = (alternatives: readonly Expression[]): Expression =>
  alternatives.length === 1 ? alternatives[0]! : { kind: 'choice', alternatives };
export const repeat = (body: Expression, minimum: number, maximum: number | null): Expression => ({
  kind: 'repeat',
  body,
  minimum,
  maximum,
});
export const optional = (body: Expression): Expression => repeat(body, 0, 1);
export const rule = (name: string): Expression => ({ kind: 'rule', name });

/** No text at all. */
export const NOTHING: Expression = { kind: 'choice', alternatives: [] };
export const isNothing = (expression: Expression): boolean =>
  expression.kind === 'choice' && expression.alternatives.length === 0;

/** A choice without those that allow no text. */
export function anyOf(expressions: readonly Expression[]): Expression {
  const some = expressions.filter((expression) => !isNothing(expression));
  return some.length === 0 ? NOTHING : choice(some);
}

/** The expression with its literals, characters and rules changed. */
export function withLeaves(
  expression: Expression,
  change: (leaf: Extract<Expression, { kind: 'literal' | 'characters' | 'rule' }>) => Expression,
): Expression {
  switch (expression.kind) {
    case 'sequence':
      return sequence(expression.parts.map((part) => withLeaves(part, change)));
    case 'choice':
      return choice(expression.alternatives.map((alternative) => withLeaves(alternative, change)));
    case 'repeat':
      return repeat(withLeaves(expression.body, change), expression.minimum, expression.maximum);
    case 'counted':
      return { ...expression, body: withLeaves(expression.body, change) };
    case 'distinct': {
      const { item, separator } = expression;
      return { ...expression, item: withLeaves(item, change), separator: withLeaves(separator, change) };
    }
    default:
      return change(expression);
  }
}

interface Lengths {
  /** In code points, as JSON Schema counts. */
  least: number;
  /** In UTF-16 units, as validators in JavaScript may count. Infinity if there is no longest text. */
  most: number;
}

/** How long the texts of an expression without rules are, at least and at most. */
export function lengthsOf(expression: Expression): Lengths {
  switch (expression.kind) {
    case 'literal':
      return { least: [...expression.text].length, most: expression.text.length };
    case 'characters':
      return { least: 1, most: expression.ranges.some(([, last]) => last > 0xffff) ? 2 : 1 };
    case 'sequence':
      return expression.parts
        .map(lengthsOf)
        .reduce((sum, { least, most }) => ({ least: sum.least + least, most: sum.most + most }), {
          least: 0,
          most: 0,
        });
    case 'choice': {
      const lengths = expression.alternatives.map(lengthsOf);
      return {
        least: smallestOf(lengths.map(({ least }) => least)),
        most: largestOf(
          lengths.map(({ most }) => most),
          0,
        ),
      };
    }
    case 'repeat': {
      const { least, most } = lengthsOf(expression.body);
      const times = most === 0 ? 0 : (expression.maximum ?? Number.POSITIVE_INFINITY);
      return { least: least * expression.minimum, most: times === 0 ? 0 : most * times };
    }
    case 'rule':
    case 'distinct':
    case 'counted':
      throw new Error(`a ${expression.kind} is in an expression that must be regular`);
  }
}

/** The expression with its rules renamed. */
export const renamed = (expression: Expression, named: (name: string) => string): Expression =>
  withLeaves(expression, (leaf) => (leaf.kind === 'rule' ? rule(named(leaf.name)) : leaf));

/** The ranges sorted, and joined where they touch. */
function normalized(ranges: readonly CodePointRange[]): CodePointRange[] {
  const joined: [number, number][] = [];
  for (const [first, last] of [...ranges].sort((left, right) => left[0] - right[0])) {
    const previous = joined.at(-1);
    if (previous && first <= previous[1] + 1) previous[1] = Math.max(previous[1], last);
    else joined.push([first, last]);
  }
  return joined;
}

export function complement(ranges: readonly CodePointRange[]): CodePointRange[] {
  const outside: CodePointRange[] = [];
  let next = 0;
  for (const [first, last] of normalized(ranges)) {
    if (first > next) outside.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= LAST_CODE_POINT) outside.push([next, LAST_CODE_POINT]);
  return outside;
}

export function intersection(
  left: readonly CodePointRange[],
  right: readonly CodePointRange[],
): CodePointRange[] {
  return complement([...complement(left), ...complement(right)]);
}

/** Adds a text to a trie by code points; `add` makes a node. Returns the node at which the text ends. */
export function insertText<Node extends { next: Map<number, Node> }>(
  root: Node,
  text: string,
  add: () => Node,
): Node {
  let node = root;
  for (const character of text) {
    const code = character.codePointAt(0)!;
    node = getOrInsert(node.next, code, add);
  }
  return node;
}

/** One range for each code point. */
export const rangesOf = (codes: Iterable<number>): CodePointRange[] =>
  Array.from(codes, (code) => [code, code]);
