/** Inclusive range of code points. */
export type CodePointRange = readonly [first: number, last: number];

/** A language over text, built of the pieces that a grammar needs. Rules are named so that they may recur. */
export type Expression =
  | { kind: 'literal'; text: string }
  | { kind: 'characters'; ranges: readonly CodePointRange[] }
  | { kind: 'sequence'; parts: readonly Expression[] }
  | { kind: 'choice'; alternatives: readonly Expression[] }
  | { kind: 'repeat'; body: Expression; minimum: number; maximum: number | null }
  | { kind: 'rule'; name: string };

/** A start and the rules it calls by name. */
export interface GrammarSource {
  start: Expression;
  rules: ReadonlyMap<string, Expression>;
}

export const LAST_CODE_POINT = 0x10ffff;

export const literal = (text: string): Expression => ({ kind: 'literal', text });
export const characters = (...ranges: CodePointRange[]): Expression => charactersOf(ranges);
export const charactersOf = (ranges: readonly CodePointRange[]): Expression => ({
  kind: 'characters',
  ranges,
});
export const sequence = (...parts: Expression[]): Expression => ({ kind: 'sequence', parts });
export const choice = (...alternatives: Expression[]): Expression => choiceOf(alternatives);
/** As `sequence`, of however many parts: a call has room for some ten thousand arguments. */
export const sequenceOf = (parts: readonly Expression[]): Expression => ({ kind: 'sequence', parts });
/** As `choice`, of however many alternatives. */
export const choiceOf = (alternatives: readonly Expression[]): Expression =>
  alternatives.length === 1 ? alternatives[0]! : { kind: 'choice', alternatives };
export const repeat = (body: Expression, minimum: number, maximum: number | null): Expression => ({
  kind: 'repeat',
  body,
  minimum,
  maximum,
});
export const optional = (body: Expression): Expression => repeat(body, 0, 1);
export const rule = (name: string): Expression => ({ kind: 'rule', name });

/** The expression with other names for the rules it calls. */
export function renamed(expression: Expression, named: (name: string) => string): Expression {
  switch (expression.kind) {
    case 'sequence':
      return sequenceOf(expression.parts.map((part) => renamed(part, named)));
    case 'choice':
      return choiceOf(expression.alternatives.map((alternative) => renamed(alternative, named)));
    case 'repeat':
      return repeat(renamed(expression.body, named), expression.minimum, expression.maximum);
    case 'rule':
      return rule(named(expression.name));
    default:
      return expression;
  }
}
