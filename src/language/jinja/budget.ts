/** An error of the template or of what it does with a value, as Python would raise it. */
export class TemplateError extends Error {}

/** What one rendering may use. */
export interface RenderBudget {
  /** Characters and items of all texts and lists that it makes, those within others too. */
  size: number;
  /** Nodes of the template that it runs. */
  steps: number;
}

/** Far beyond what conversations need: 8,000 messages of Qwen3 take half of it. All of it takes some 250 ms. */
export const defaultBudget: RenderBudget = { size: 2 ** 24, steps: 2 ** 22 };

/** Thrown before a template makes more, or runs longer, than its budget allows. */
export class BudgetError extends TemplateError {}

// One rendering ends before another begins, so one budget is enough.
let whole: RenderBudget = defaultBudget;
let left: RenderBudget = { ...defaultBudget };

/** Runs a rendering within a budget. */
export function withinBudget<Result>(budget: RenderBudget, render: () => Result): Result {
  whole = budget;
  left = { ...budget };
  return render();
}

/** Counts a text or list before it is made. @throws BudgetError */
export function spend(size: number): void {
  left.size -= size;
  // Not below zero: also for a size that is NaN.
  if (!(left.size >= 0)) throw new BudgetError(`it would make more than ${whole.size} characters`);
}

/** Counts a node that is run, or so many of them. @throws BudgetError */
export function step(count = 1): void {
  left.steps -= count;
  if (!(left.steps >= 0)) throw new BudgetError(`it would run for more than ${whole.steps} steps`);
}

const smallItems = 8;

/** Counts what an operation that goes through a value takes. */
export function pass<Value>(value: Value): Value {
  if (typeof value === 'string') step(value.length / (8 * smallItems));
  else if (Array.isArray(value)) step(value.length / smallItems);
  else if (value instanceof Map) step(value.size / smallItems);
  return value;
}
