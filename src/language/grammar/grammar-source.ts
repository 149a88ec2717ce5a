import type { Grammar, JsonStyle } from '../constraint/constraint.ts';
import { LanguageError } from '../error.ts';
import { ebnfLanguage } from '../extensions/ebnf/ebnf.ts';
import { structuralTagLanguage } from '../extensions/structural-tag/structural-tag.ts';
import { choice, type GrammarSource, literal, repeat, sequence } from './expression.ts';
import { compactLayout, JsonLayout } from './json/layout.ts';
import { SchemaCompiler } from './json/schema.ts';
import { plainSpelling, wholeMatch } from './regex.ts';

/** The language of a grammar of any kind except free text. */
export function grammarSource(grammar: Exclude<Grammar, { type: 'text' }>): GrammarSource {
  switch (grammar.type) {
    case 'choice':
      if (grammar.choices.length === 0)
        throw new LanguageError('grammar_empty', 'a choice needs at least one alternative');
      return { start: choice(grammar.choices.map(literal)), rules: new Map() };
    case 'regex':
      return { start: wholeMatch(grammar.pattern, plainSpelling), rules: new Map() };
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
    case 'ebnf':
      return ebnfLanguage(grammar.grammar);
    case 'structural_tag':
      return structuralTagLanguage(grammar.tag);
  }
}

const layoutOf = ({ whitespace, closed }: JsonStyle): JsonLayout =>
  whitespace === undefined && closed !== false ? compactLayout : new JsonLayout({ whitespace, closed });

/** JSON as models write it in text: with or without a space after commas and colons. */
const spacedLayout = new JsonLayout({ whitespace: ' ?' });

function namedJson({ alternatives, written }: Extract<Grammar, { type: 'named_json' }>): GrammarSource {
  if (alternatives.length === 0)
    throw new LanguageError('grammar_empty', 'a choice of names needs at least one alternative');
  const names = new Set<string>();
  for (const { name } of alternatives) {
    if (names.has(name)) throw new LanguageError('grammar_invalid', `two alternatives are called "${name}"`);
    names.add(name);
  }
  const schemas = alternatives.map(({ name, schema }) => ({
    name,
    schema: new SchemaCompiler(schema, { label: name, onlyObjects: true, layout: written && spacedLayout }),
  }));
  const { beforeName = '', beforeArguments = '', after = '', between = null } = written ?? {};
  const call = choice(
    schemas.map(({ name, schema }) =>
      sequence([
        literal(beforeName + name + beforeArguments),
        schema.root,
        ...(after === '' ? [] : [literal(after)]),
      ]),
    ),
  );
  return {
    start: between === null ? call : sequence([call, repeat(sequence([literal(between), call]), 0, null)]),
    rules: new Map(schemas.flatMap(({ schema }) => [...schema.rules])),
  };
}
