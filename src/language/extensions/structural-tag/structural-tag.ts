import { isObject } from '../../../util/json.ts';
import {
  choice,
  type Expression,
  type GrammarSource,
  literal,
  optional,
  renamed,
  repeat,
  rule,
  sequence,
} from '../../grammar/expression.ts';
import { type FreeText, freeTextRules } from '../../grammar/free-text.ts';
import { compactLayout } from '../../grammar/json/layout.ts';
import { SchemaCompiler } from '../../grammar/json/schema.ts';
import { maxRepetitions } from '../../grammar/limits.ts';
import { plainSpelling, wholeMatch } from '../../grammar/regex.ts';
import { ebnfLanguage } from '../ebnf/ebnf.ts';
import { checkTriggers, Fields, readTag, type Tag } from './tags.ts';

/**
 * The language of a structural tag, in either of its two forms. The older form has `structures` and `triggers`: free
 * text in which a trigger begins one of the structures, which is its `begin`, JSON of its `schema` and its `end`. The
 * newer form has one `format` as xgrammar documents it, except formats of single tokens and values written in other
 * ways than JSON. The JSON has no white space.
 * @throws LanguageError that names the field.
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
  const tags = fields.list('structures').map(readStructure);
  return { start: compiler.triggered(fields, tags, []), rules: compiler.rules };
}

function readStructure(structure: unknown, index: number): Tag {
  const fields = new Fields(structure, `structures[${index}]`, ['begin', 'schema', 'end']);
  if (!fields.has('schema')) fields.refuse('schema', 'is missing');
  return {
    begin: fields.string('begin'),
    content: { type: 'json_schema', json_schema: fields.value('schema') },
    ends: [fields.string('end')],
    path: fields.path,
  };
}

const SUPPORTED =
  'const_string, json_schema, grammar, regex, any_text, sequence, or, optional, plus, star, repeat, tag, triggered_tags, tags_with_separator and dispatch';

/** Compiles formats, each a piece of text. Free text within a tag never contains the tag's end. */
class FormatCompiler {
  readonly rules = new Map<string, Expression>(compactLayout.rules);
  #count = 0;

  /** `excluded` are the ends of the innermost tag around the format. */
  compile(format: unknown, path: string, excluded: readonly string[]): Expression {
    const fields = new Fields(format, path);
    const type = fields.string('type');
    const only = (...known: string[]) => fields.allowOnly(['type', ...known]);
    const content = () => this.compile(fields.value('content'), `${path}.content`, excluded);
    switch (type) {
      case 'const_string':
        only('value');
        return literal(fields.string('value'));
      case 'json_schema':
        only('json_schema', 'style', 'any_order');
        return this.#jsonSchema(fields);
      case 'grammar':
        only('grammar');
        return this.#grammar(fields.string('grammar'));
      case 'regex':
        only('pattern');
        return wholeMatch(fields.string('pattern'), plainSpelling);
      case 'any_text':
        only('excludes', 'excluded_str');
        return this.#freeText(
          { triggers: [], excluded: [...excluded, ...excludesOf(fields)] },
          this.#newText(),
        );
      case 'sequence':
        only('elements');
        return sequence(this.#elements(fields, excluded));
      case 'or':
        only('elements');
        return choice(this.#elements(fields, excluded));
      case 'optional':
        only('content');
        return optional(content());
      case 'plus':
        only('content');
        return repeat(content(), 1, null);
      case 'star':
        only('content');
        return repeat(content(), 0, null);
      case 'repeat':
        only('content', 'min', 'max');
        return this.#repeat(fields, content());
      case 'tag':
        return this.#tag(readTag(format, path));
      case 'triggered_tags':
        only('triggers', 'tags', 'at_least_one', 'stop_after_first', 'excludes');
        return this.triggered(fields, this.#tags(fields), [...excluded, ...excludesOf(fields)]);
      case 'tags_with_separator':
        only('tags', 'separator', 'at_least_one', 'stop_after_first');
        return this.#separatedTags(fields);
      case 'dispatch':
        only('rules', 'loop', 'excludes');
        return this.#dispatch(fields, excluded);
      default:
        return fields.refuse('type', `is not supported; supported are ${SUPPORTED}`);
    }
  }

  #jsonSchema(fields: Fields): Expression {
    const schema = fields.value('json_schema');
    if ((fields.value('style') ?? 'json') !== 'json') fields.refuse('style', 'must be "json"');
    if (fields.flag('any_order'))
      fields.refuse('any_order', 'must be false: properties have the order of the schema');
    if (schema === true) return compactLayout.anyValue;
    if (!isObject(schema)) return fields.refuse('json_schema', 'must be a schema');
    const compiled = new SchemaCompiler(schema, { label: fields.path });
    for (const [name, body] of compiled.rules) this.rules.set(name, body);
    return compiled.root;
  }

  #grammar(source: string): Expression {
    const { start, rules } = ebnfLanguage(source);
    const label = `grammar ${this.#count++}`;
    const named = (name: string) => `${label} ${name}`;
    for (const [name, body] of rules) this.rules.set(named(name), renamed(body, named));
    return renamed(start, named);
  }

  #elements(fields: Fields, excluded: readonly string[]): Expression[] {
    const elements = fields.list('elements');
    if (elements.length === 0) fields.refuse('elements', 'is empty');
    return elements.map((element, index) =>
      this.compile(element, `${fields.path}.elements[${index}]`, excluded),
    );
  }

  #repeat(fields: Fields, content: Expression): Expression {
    const minimum = fields.integer('min', 0);
    const maximum = fields.integer('max', -1);
    if (maximum !== -1 && maximum < minimum) fields.refuse('max', 'is below min');
    if (Math.max(minimum, maximum) > maxRepetitions)
      fields.refuse(maximum > minimum ? 'max' : 'min', `is more than ${maxRepetitions}`);
    return repeat(content, minimum, maximum === -1 ? null : maximum);
  }

  /** A tag, or the rest of it after the `written` part of its `begin`. */
  #tag({ begin, content, ends, path }: Tag, written = ''): Expression {
    const closing = ends.filter((end) => end !== '');
    return sequence([
      literal(begin.slice(written.length)),
      this.compile(content, `${path}.content`, closing),
      choice(ends.map(literal)),
    ]);
  }

  #tags(fields: Fields): Tag[] {
    return fields.list('tags').map((tag, index) => readTag(tag, `${fields.path}.tags[${index}]`));
  }

  /** Free text in which the `triggers` of `fields` begin tags. */
  triggered(fields: Fields, tags: readonly Tag[], excluded: readonly string[]): Expression {
    const triggers = fields.strings('triggers');
    checkTriggers(fields, triggers, tags);
    const compiled = tags.map((tag) => {
      const trigger = triggers.find((text) => tag.begin.startsWith(text)) ?? '';
      return { trigger, rest: this.#shared(this.#tag(tag, trigger)) };
    });
    const name = this.#newText();
    const continuation = fields.flag('stop_after_first') ? literal('') : rule(name);
    const follows = compiled.map(({ trigger, rest }) => ({
      text: trigger,
      follow: sequence([rest, continuation]),
    }));
    const text = this.#freeText({ triggers: follows, excluded }, name);
    if (!fields.flag('at_least_one')) return text;
    const first = compiled.map(({ trigger, rest }) => sequence([literal(trigger), rest]));
    return sequence([choice(first), continuation]);
  }

  #separatedTags(fields: Fields): Expression {
    const tags = this.#tags(fields);
    if (tags.length === 0) fields.refuse('tags', 'is empty');
    const tag = this.#shared(choice(tags.map((one) => this.#tag(one))));
    const further = sequence([literal(fields.string('separator')), tag]);
    const some = fields.flag('stop_after_first') ? tag : sequence([tag, repeat(further, 0, null)]);
    return fields.flag('at_least_one') ? some : optional(some);
  }

  #dispatch(fields: Fields, excluded: readonly string[]): Expression {
    const name = this.#newText();
    const continuation = !fields.has('loop') || fields.flag('loop') ? rule(name) : literal('');
    const triggers = fields.list('rules').map((pair, index) => {
      const path = `${fields.path}.rules[${index}]`;
      const [text, format] = Array.isArray(pair) && pair.length === 2 ? pair : [];
      if (typeof text !== 'string' || text === '' || !text.isWellFormed())
        return fields.refuse('rules', `must be pairs of a string and a format; ${path} is not`);
      return { text, follow: sequence([this.compile(format, `${path}[1]`, excluded), continuation]) };
    });
    return this.#freeText({ triggers, excluded: [...excluded, ...excludesOf(fields)] }, name);
  }

  #freeText(text: FreeText, name: string): Expression {
    for (const [ruleName, body] of freeTextRules(text, name)) this.rules.set(ruleName, body);
    return rule(name);
  }

  #newText(): string {
    return `text ${this.#count++}`;
  }

  #shared(expression: Expression): Expression {
    const name = `shared ${this.#count++}`;
    this.rules.set(name, expression);
    return rule(name);
  }
}

function excludesOf(fields: Fields): string[] {
  return ['excludes', 'excluded_str'].flatMap((name) => {
    if (!fields.has(name)) return [];
    const excluded = fields.strings(name);
    return excluded.includes('')
      ? fields.refuse(name, 'has an empty string, which every text contains')
      : excluded;
  });
}
