import type { GrammarSource } from '../../grammar/expression.ts';
import { Fields } from './fields.ts';
import { FormatCompiler } from './formats.ts';
import type { Tag } from './tags.ts';

/**
 * The language of a structural tag, in either form that is in use. The older one, `structures` and `triggers`: free
 * text in which a trigger, once written, begins one of the structures, which is its `begin`, JSON of its `schema` and
 * its `end`. The newer one, `format`: one format as xgrammar documents them, but for those about single tokens and
 * about other writings of values than JSON. The JSON has no white space. Throws a `LanguageError` that names the field.
 */
export function structuralTagLanguage(tag: Record<string, unknown>): GrammarSource {
  const fields = new Fields(tag, 'top');
  if (fields.has('type') && fields.value('type') !== 'structural_tag')
    fields.refuse('type', 'must be "structural_tag"');
  const compiler = new FormatCompiler();
  if (fields.has('format')) {
    fields.allowOnly(['type', 'format']);
    return { start: compiler.compile(fields.value('format'), 'format', []), rules: compiler.rules };
  }
  fields.allowOnly(['type', 'structures', 'triggers']);
  const tags = fields.list('structures').map((structure, index) => readStructure(structure, index));
  return { start: compiler.triggered(fields, tags), rules: compiler.rules };
}

function readStructure(structure: unknown, index: number): Tag {
  const fields = new Fields(structure, `structures[${index}]`, ['begin', 'schema', 'end']);
  if (!fields.has('schema')) fields.refuse('schema', 'is missing');
  return {
    begin: fields.string('begin'),
    content: { type: 'json_schema', json_schema: fields.value('schema') },
    ends: [fields.string('end')],
    place: fields.place,
  };
}
