import { JsonNumber } from '../../util/exact-json.ts';
import { defaultBudget, type RenderBudget, withinBudget } from './budget.ts';
import { globals } from './globals.ts';
import { run } from './interpreter.ts';
import type { Node } from './nodes.ts';
import { nodesOf } from './parse.ts';
import type { Value } from './value.ts';

/**
 * A Jinja template, rendered as transformers renders chat templates with Jinja2: those filters, tests and methods that
 * chat templates use, and Python's numbers and texts. An error names what is not among them, such as the filter `batch`.
 * The library's parser reads it; its own interpreter differs from Jinja2 in too much.
 */
export class Template {
  readonly nodes: Node[];

  constructor(source: string) {
    this.nodes = nodesOf(source);
  }

  /**
   * `variables`: values of JSON, also as `parseExactJson` reads them.
   * @throws TemplateError; BudgetError if it needs more than the budget.
   */
  render(variables: Readonly<Record<string, unknown>> = {}, budget: RenderBudget = defaultBudget): string {
    const values = Object.entries(variables).map(([name, value]): [string, Value] => [name, toValue(value)]);
    return withinBudget(budget, () => run(this.nodes, new Map([...globals, ...values])));
  }
}

/** A value of JSON as Python's `json.loads` reads it. */
function toValue(value: unknown): Value {
  if (value === undefined || value === null || typeof value === 'boolean' || typeof value === 'string')
    return value;
  if (typeof value === 'number') return numberOf(JSON.stringify(value));
  if (value instanceof JsonNumber) return numberOf(value.source);
  if (Array.isArray(value)) return value.map(toValue);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return new Map(entries.map(([key, item]) => [String(key), toValue(item)]));
}

/** Without a fraction and an exponent a number is an int, which keeps all digits. */
const numberOf = (source: string) => (/^-?\d+$/.test(source) ? BigInt(source) : Number(source));

/** Whether a template has a variable of this name. */
export const mentions = (template: string, name: string): boolean =>
  new RegExp(`(?<![\\p{L}\\p{N}_])${name}(?![\\p{L}\\p{N}_])`, 'u').test(template);
