import { type Expression, type GrammarSource, rule } from '../../grammar/expression.ts';
import { rulesThat } from '../../grammar/productive.ts';
import type { SourceReader } from '../../grammar/source-reader.ts';
import { type GrammarRule, grammarReader, RuleParser } from './parse.ts';

/**
 * The texts that a GBNF grammar derives from its rule `root`.
 * @throws LanguageError with line and column.
 */
export function ebnfLanguage(source: string): GrammarSource {
  const reader = grammarReader(source);
  const rules = new RuleParser(reader).parse();
  const bodies = new Map(Array.from(rules, ([name, { body }]) => [name, body]));
  if (!rules.has('root')) reader.refuse('it has no rule called root, where every text starts', 0);
  for (const { calls } of rules.values())
    for (const { name, index } of calls)
      if (!rules.has(name)) reader.refuse(`there is no rule called ${name}`, index);
  const ending = rulesThat(bodies, () => true);
  for (const [name, { index }] of rules)
    if (!ending.has(name))
      reader.refuse(`the rule ${name} never ends, because each of its alternatives needs it again`, index);
  const empty = rulesThat(bodies, (leaf) => leaf.kind === 'literal' && leaf.text === '');
  checkLeftRecursion(rules, empty, reader);
  return { start: rule('root'), rules: bodies };
}

/**
 * A rule that begins with itself would call itself forever before it reads anything. `empty`: the rules that an empty text
 * matches.
 */
function checkLeftRecursion(
  rules: ReadonlyMap<string, GrammarRule>,
  empty: ReadonlySet<string>,
  reader: SourceReader,
): void {
  const beginnings = new Map<string, Set<string>>();
  for (const [name, { body }] of rules) {
    const first = new Set<string>();
    beginningsOf(body, empty, first);
    beginnings.set(name, first);
  }
  const finished = new Set<string>();
  for (const start of rules.keys()) {
    const path: { name: string; remaining: Iterator<string> }[] = [];
    const onPath = new Set<string>();
    const enter = (name: string) => {
      path.push({ name, remaining: beginnings.get(name)!.values() });
      onPath.add(name);
    };
    if (!finished.has(start)) enter(start);
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const { value, done } = top.remaining.next();
      if (done) {
        path.pop();
        onPath.delete(top.name);
        finished.add(top.name);
      } else if (!onPath.has(value)) {
        if (!finished.has(value)) enter(value);
      } else {
        const names = [...onPath];
        const cycle = [...names.slice(names.indexOf(value)), value];
        const shown = cycle.length > 8 ? [...cycle.slice(0, 4), '...', ...cycle.slice(-3)] : cycle;
        reader.refuse(
          `left recursion: ${shown.join(' -> ')} can call itself before anything is written; write it as a repetition`,
          rules.get(value)?.index,
        );
      }
    }
  }
}

/** Adds the rules that an expression may begin with. Returns whether it may be empty. */
function beginningsOf(expression: Expression, empty: ReadonlySet<string>, first: Set<string>): boolean {
  switch (expression.kind) {
    case 'literal':
      return expression.text === '';
    case 'characters':
      return false;
    case 'sequence':
      return expression.parts.every((part) => beginningsOf(part, empty, first));
    case 'choice':
      return (
        expression.alternatives.filter((alternative) => beginningsOf(alternative, empty, first)).length > 0
      );
    case 'repeat':
      if (expression.maximum === 0) return true;
      return beginningsOf(expression.body, empty, first) || expression.minimum === 0;
    case 'counted':
      return beginningsOf(expression.body, empty, first);
    case 'distinct':
      return beginningsOf(expression.item, empty, first);
    case 'rule':
      first.add(expression.name);
      return empty.has(expression.name);
  }
}
