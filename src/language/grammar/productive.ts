import { append } from '../../util/extremes.ts';
import { getOrInsert } from '../../util/get-or-insert.ts';
import {
  anyOf,
  type Expression,
  type GrammarSource,
  isNothing,
  NOTHING,
  repeat,
  sequence,
} from './expression.ts';

/**
 * Removes alternatives and rules that no text ends, so that sampling never enters one. The language stays the same. If
 * it is empty, the start is a choice of nothing.
 */
export function withoutUnproductive({ start, rules }: GrammarSource): GrammarSource {
  const productive = rulesThat(rules, () => true);
  const isComplete = productive.size === rules.size && ![start, ...rules.values()].some(hasNothing);
  if (isComplete) return { start, rules };
  const cut = (expression: Expression): Expression => cutFrom(expression, productive);
  const kept = [...rules].filter(([name]) => productive.has(name));
  return { start: cut(start), rules: new Map(kept.map(([name, body]) => [name, cut(body)])) };
}

type MeetsIt = (leaf: Extract<Expression, { kind: 'literal' | 'characters' }>) => boolean;

/**
 * The smallest set of rules that meet a condition. A sequence meets it if all its parts do, a choice if an alternative does,
 * and what may be left out always does.
 */
export function rulesThat(rules: ReadonlyMap<string, Expression>, meetsIt: MeetsIt): Set<string> {
  const found = new Set<string>();
  /** The rules to look at again once a rule is found: each once, however many others it waits for. */
  const waiting = new Map<string, Set<string>>();
  const pending = [...rules.keys()];
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    const body = rules.get(name);
    if (!body || found.has(name)) continue;
    const missing = missingRules(body, found, meetsIt);
    if (!missing) {
      found.add(name);
      append(pending, waiting.get(name) ?? []);
      waiting.delete(name);
    }
    for (const other of missing ?? []) getOrInsert(waiting, other, () => new Set<string>()).add(name);
  }
  return found;
}

/** Null if the expression meets the condition; else rules, one of which must be found first. */
function missingRules(expression: Expression, found: ReadonlySet<string>, meetsIt: MeetsIt): string[] | null {
  switch (expression.kind) {
    case 'literal':
    case 'characters':
      return meetsIt(expression) ? null : [];
    case 'rule':
      return found.has(expression.name) ? null : [expression.name];
    case 'repeat':
      return expression.minimum === 0 ? null : missingRules(expression.body, found, meetsIt);
    case 'counted':
      return missingRules(expression.body, found, meetsIt);
    case 'distinct':
      return missingRules(expression.item, found, meetsIt);
    case 'sequence': {
      for (const part of expression.parts) {
        const missing = missingRules(part, found, meetsIt);
        if (missing) return missing;
      }
      return null;
    }
    case 'choice': {
      const missing: string[] = [];
      for (const alternative of expression.alternatives) {
        const rules = missingRules(alternative, found, meetsIt);
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
      return isNothing(expression) || expression.alternatives.some(hasNothing);
    case 'sequence':
      return expression.parts.some(hasNothing);
    case 'repeat':
    case 'counted':
      return hasNothing(expression.body);
    case 'distinct':
      return hasNothing(expression.item);
    default:
      return false;
  }
}

/** The expression without what is not productive; the choice of nothing if it is not itself. */
function cutFrom(expression: Expression, productive: ReadonlySet<string>): Expression {
  switch (expression.kind) {
    case 'rule':
      return productive.has(expression.name) ? expression : NOTHING;
    case 'choice':
      return anyOf(expression.alternatives.map((alternative) => cutFrom(alternative, productive)));
    case 'sequence': {
      const parts = expression.parts.map((part) => cutFrom(part, productive));
      return parts.includes(NOTHING) ? NOTHING : sequence(parts);
    }
    case 'repeat': {
      const body = cutFrom(expression.body, productive);
      if (body !== NOTHING) return repeat(body, expression.minimum, expression.maximum);
      return expression.minimum === 0 ? sequence([]) : NOTHING;
    }
    case 'counted': {
      const body = cutFrom(expression.body, productive);
      return body === NOTHING ? NOTHING : { ...expression, body };
    }
    case 'distinct': {
      const item = cutFrom(expression.item, productive);
      return item === NOTHING ? NOTHING : { ...expression, item };
    }
    default:
      return expression;
  }
}
