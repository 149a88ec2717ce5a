import type { Expression } from '../expression.ts';
import type { Conjunction, Located } from './conjunction.ts';
import type { JsonLayout, ObjectLayout } from './layout.ts';

/** The parts of the schema compiler that the files for each type use. */
export interface SchemaScope {
  readonly layout: JsonLayout;
  /** How objects that match all schemas are written. */
  objectLayout(all: Conjunction): ObjectLayout;
  /** The values that match all schemas. */
  compile(schemas: readonly Located[]): Expression;
  /** The same in another layout, whose rules they do not call. */
  compileIn(layout: JsonLayout, schemas: readonly Located[]): Expression;
  /** The same, written so that equal values have the same text. */
  compileDistinct(schemas: readonly Located[]): Expression;
  /** Whether a constant matches all schemas. */
  matches(value: unknown, schemas: readonly Located[]): boolean;
  /** Defines a rule, so that an expression with many uses is built once. */
  defineRule(expression: Expression): Expression;
  /** A beginning for names of rules that no others have. */
  newLabel(): string;
  /** The rule of this name. `body` defines it; null if it is defined elsewhere. */
  ruleNamed(name: string, body?: (() => Expression) | null): Expression;
  /** No values, with a reason that is told if nothing is left of the whole schema. */
  nothing(all: Conjunction, keyword: string, why: string): Expression;
}
