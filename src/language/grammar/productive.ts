import { append } from '../../util/extremes.ts';
import { choice, type Expression, type GrammarSource, repeat, sequence } from './expression.ts';

const NOTHING: Expression = { kind: 'choice', alternatives: [] };

/**
 * Removes alternatives and rules that no text ends, so that sampling never enters one. The language stays the same. If
 * it is empty, the start is a choice of nothing.
 */
export function withoutUnproductive({ start, rules }: GrammarSource): GrammarSource {
  const productive = productiveRules(rules);
  const isComplete = productive.size === rules.size && ![start, ...rules.values()].some(hasNothing);
  if (isComplete) return { start, rules };
  const cut = (expression: Expression): Expression => cutFrom(expression, productive);
  const kept = [...rules].filter(([name]) => productive.has(name));
  return { start: cut(start), rules: new Map(kept.map(([name, body]) => [name, cut(body)])) };
}

function productiveRules(rules: ReadonlyMap<string, Expression>): Set<string> {
  const productive = new Set<string>();
  /** The rules to look at again once a rule is productive. */
  const waiting = new Map<string, string[]>();
  const pending = [...rules.keys()];
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    const body = rules.get(name);
    if (!body || productive.has(name)) continue;
    const missing = missingRules(body, productive);
    if (!missing) {
      productive.add(name);
      append(pending, waiting.get(name) ?? []);
      waiting.delete(name);
    }
    for (const other of missing ?? []) {
      const names = waiting.get(other);
      if (names) names.push(name);
      else waiting.set(other, [name]);
    }
  }
  return productive;
}

/** Null if the expression is productive; else rules: one of them must become productive first. */
function missingRules(expression: Expression, productive: ReadonlySet<string>): string[] | null {
  switch (expression.kind) {
    case 'literal':
    case 'characters':
      return null;
    case 'rule':
      return productive.has(expression.name) ? null : [expression.name];
    case 'repeat':
      return expression.minimum === 0 ? null : missingRules(expression.body, productive);
    case 'sequence': {
      for (const part of expression.parts) {
        const missing = missingRules(part, productive);
        if (missing) return missing;
      }
      return null;
    }
    case 'choice': {
      const missing: string[] = [];
      for (const alternative of expression.alternatives) {
        const rules = missingRules(alternative, productive);
        if (!rules) return null;
        append(missing, rules);
      }
      return missing;
    }
  }
}

function hasNothing(expression: Expression): boolean {
  switch (expression.kind) {
    case 'choice':
      return expression.alternatives.length === 0 || expression.alternatives.some(hasNothing);
    case 'sequence':
      return expression.parts.some(hasNothing);
    case 'repeat':
      return hasNothing(expression.body);
    default:
      return false;
  }
}

/** The expression without what is not productive; the choice of nothing if it is not itself. */
function cutFrom(expression: Expression, productive: ReadonlySet<string>): Expression {
  switch (expression.kind) {
    case 'rule':
      return productive.has(expression.name) ? expression : NOTHING;
    case 'choice': {
      const kept = expression.alternatives
        .map((alternative) => cutFrom(alternative, productive))
        .filter((alternative) => alternative !== NOTHING);
      return kept.length === 0 ? NOTHING : choice(kept);
    }
    case 'sequence': {
      const parts = expression.parts.map((part) => cutFrom(part, productive));
      return parts.includes(NOTHING) ? NOTHING : sequence(parts);
    }
    case 'repeat': {
      const body = cutFrom(expression.body, productive);
      if (body !== NOTHING) return repeat(body, expression.minimum, expression.maximum);
      return expression.minimum === 0 ? sequence([]) : NOTHING;
    }
    default:
      return expression;
  }
}
