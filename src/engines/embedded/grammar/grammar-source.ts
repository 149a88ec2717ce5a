import type { Grammar } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import { choice, type GrammarSource, literal, sequence } from './expression.ts';
import { anyObject, jsonRules } from './json/any-value.ts';
import { SchemaCompiler } from './json/schema.ts';
import { plainSpelling } from './regex/character-set.ts';
import { wholeMatch } from './regex/language.ts';

/** The language of each kind of grammar but free text. */
export function grammarSource(grammar: Exclude<Grammar, { type: 'text' }>): GrammarSource {
  switch (grammar.type) {
    case 'choice':
      if (grammar.choices.length === 0)
        throw new EngineError('grammar_empty', 'a choice needs at least one alternative');
      return { start: choice(...grammar.choices.map(literal)), rules: new Map() };
    case 'regex':
      return { start: wholeMatch(grammar.pattern, plainSpelling), rules: new Map() };
    case 'json_object':
      return { start: anyObject, rules: jsonRules };
    case 'json_schema': {
      const schema = new SchemaCompiler(grammar.schema, 'schema');
      return { start: schema.root, rules: schema.rules };
    }
    case 'named_json':
      return namedJson(grammar.alternatives);
  }
}

function namedJson(alternatives: Extract<Grammar, { type: 'named_json' }>['alternatives']): GrammarSource {
  if (alternatives.length === 0)
    throw new EngineError('grammar_empty', 'a choice of names needs at least one alternative');
  const twice = alternatives.find(({ name }, index) =>
    alternatives.some((other, at) => at < index && other.name === name),
  );
  if (twice) throw new EngineError('grammar_invalid', `two alternatives are called "${twice.name}"`);
  const schemas = alternatives.map(({ name, schema }) => ({
    name,
    schema: new SchemaCompiler(schema, name),
  }));
  return {
    start: choice(...schemas.map(({ name, schema }) => sequence(literal(name), schema.root))),
    rules: new Map(schemas.flatMap(({ schema }) => [...schema.rules])),
  };
}
