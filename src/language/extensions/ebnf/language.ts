import { type GrammarSource, rule } from '../../grammar/expression.ts';
import { checkRules } from './check.ts';
import { parseRules } from './parse.ts';

/** The texts that a GBNF grammar derives from its rule `root`. */
export function ebnfLanguage(source: string): GrammarSource {
  const rules = parseRules(source);
  checkRules(rules);
  return { start: rule('root'), rules: new Map([...rules].map(([name, { body }]) => [name, body])) };
}
