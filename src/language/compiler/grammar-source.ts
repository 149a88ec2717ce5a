import { LanguageError } from '../error.ts';
import { ebnfLanguage } from '../extensions/ebnf/ebnf.ts';
import { structuralTagLanguage } from '../extensions/structural-tag/structural-tag.ts';
import type { Grammar, JsonStyle } from '../grammar/constraint.ts';
import {
  choice,
  type Expression,
  type GrammarSource,
  literal,
  NOTHING,
  rule,
} from '../grammar/expression.ts';
import { compactLayout, JsonLayout } from '../grammar/json/layout.ts';
import { SchemaCompiler } from '../grammar/json/schema.ts';
import { patternLanguage } from '../grammar/look-around.ts';
import { plainSpelling } from '../grammar/regex.ts';
import { regularExpression } from '../grammar/regular.ts';
import { namedJson, textOrCalls } from '../grammar/tool-calls.ts';

/** The language of a grammar of any kind except free text. */
export function grammarSource(grammar: Exclude<Grammar, { type: 'text' }>): GrammarSource {
  switch (grammar.type) {
    case 'choice':
      if (grammar.choices.length === 0)
        throw new LanguageError('grammar_empty', 'A choice needs at least one alternative.');
      return { start: choice(grammar.choices.map(literal)), rules: new Map() };
    case 'regex':
      return regexSource(grammar.pattern);
    case 'json_object': {
      const layout = layoutOf(grammar);
      return { start: layout.anyObject, rules: layout.rules };
    }
    case 'json_schema': {
      const schema = new SchemaCompiler(grammar.schema, { label: 'schema', layout: layoutOf(grammar) });
      return { start: schema.root, rules: schema.rules };
    }
    case 'named_json':
      return namedJson(grammar);
    case 'text_or_calls':
      return textOrCalls(grammar, grammar.content.type === 'text' ? null : grammarSource(grammar.content));
    case 'ebnf':
      return ebnfLanguage(grammar.grammar);
    case 'structural_tag':
      return structuralTagLanguage(grammar.tag);
  }
}

function regexSource(pattern: string): GrammarSource {
  const language = patternLanguage(pattern, { isWhole: true });
  if ('kind' in language) return { start: language, rules: new Map() };
  if (language.length === 0) return { start: NOTHING, rules: new Map() };
  const rules = new Map<string, Expression>();
  const start = regularExpression(language, plainSpelling, (index, body) => {
    if (body) rules.set(`state ${index}`, body());
    return rule(`state ${index}`);
  });
  return { start, rules };
}

const layoutOf = ({ whitespace, closed }: JsonStyle): JsonLayout =>
  whitespace === undefined && closed !== false ? compactLayout : new JsonLayout({ whitespace, closed });
