import { CALL_ID } from '../call-forms.ts';
import { LanguageError } from '../error.ts';
import type { NamedJson, TextOrCalls } from './constraint.ts';
import {
  ANY_CHARACTER,
  type CodePointRange,
  characters,
  choice,
  complement,
  type Expression,
  type GrammarSource,
  insertText,
  literal,
  rangesOf,
  renamed,
  repeat,
  rule,
  sequence,
} from './expression.ts';
import { freeTextRules } from './free-text.ts';
import { compactLayout, JsonLayout } from './json/layout.ts';
import { SchemaCompiler } from './json/schema.ts';
import { SPACE } from './regex-characters.ts';

/** With or without a space after commas and colons. */
const spacedLayout = new JsonLayout({ whitespace: ' ?' });
const pythonLayout = new JsonLayout({ whitespace: ' ?', isPython: true });

const alphanumerics: readonly CodePointRange[] = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x61, 0x7a],
];

/** One call, or several. `tag`: what they begin with that is written already. */
export function namedJson({ alternatives, written }: NamedJson, tag = ''): GrammarSource {
  if (alternatives.length === 0)
    throw new LanguageError('grammar_empty', 'A choice of names needs at least one alternative.');
  const names = new Set<string>();
  for (const { name } of alternatives) {
    if (names.has(name)) throw new LanguageError('grammar_invalid', `Two alternatives are called "${name}".`);
    names.add(name);
  }
  const { beforeName, beforeArguments, after, between, mayHaveSpaces, python } = written;
  const list = written.list ?? python ?? { open: '', close: '' };
  const layout = python ? pythonLayout : mayHaveSpaces ? spacedLayout : compactLayout;
  const schemas = alternatives.map(({ name, schema }) => ({
    name,
    schema: new SchemaCompiler(schema, {
      label: name,
      onlyObjects: true,
      asArguments: python ? 'python' : written.arguments,
      layout,
    }),
  }));
  const callAfter = (text: string) =>
    choice(
      schemas.map(({ name, schema }) =>
        sequence([...withIds(text + name + beforeArguments), schema.root, ...withIds(after)]),
      ),
    );
  const before = (list.open + beforeName).slice(tag.length);
  const call = callAfter(before);
  const next = before === beforeName ? call : callAfter(beforeName);
  const more = between === null ? [] : [repeat(sequence([literal(between), next]), 0, null)];
  return {
    start: sequence([call, ...more, ...withIds(list.close)]),
    rules: new Map(schemas.flatMap(({ schema }) => [...schema.rules])),
  };
}

const anyId = repeat(characters(alphanumerics), 9, 9);

/** A text of a form; nothing for an empty one. */
const withIds = (text: string): Expression[] =>
  text
    .split(CALL_ID)
    .flatMap((part, index) => [...(index > 0 ? [anyId] : []), ...(part === '' ? [] : [literal(part)])]);

/**
 * Text or calls, as the reader of replies reads them: after reasoning, free text up to the first tag, from where all are
 * calls. Calls without a tag are the whole answer. `content`: the grammar of the text; null for free text.
 */
export function textOrCalls(
  { calls, tag, reasoning }: TextOrCalls,
  content: GrammarSource | null,
): GrammarSource {
  const called = within('call', namedJson(calls, content ? '' : tag));
  if (content) {
    const text = within('content', content);
    return {
      start: choice([text.start, called.start]),
      rules: new Map([...text.rules, ...called.rules]),
    };
  }
  const rules = new Map(called.rules);
  const add = (more: ReadonlyMap<string, Expression>) => {
    for (const [name, body] of more) rules.set(name, body);
  };
  const text = rule('text');
  if (tag !== '')
    add(freeTextRules({ triggers: [{ text: tag, follow: called.start }], excluded: [] }, 'text'));
  else add(noCallRules('text'));
  const answer = tag === '' ? choice([text, sequence([spaces, called.start])]) : text;
  if (!reasoning) return { start: answer, rules };
  const { open, close } = reasoning;
  add(freeTextRules({ triggers: [{ text: close, follow: answer }], excluded: [] }, 'reasoning'));
  return { start: choice([answer, sequence([spaces, literal(open), rule('reasoning')])]), rules };
}

/** Adds a prefix to the names of all rules. */
function within(prefix: string, { start, rules }: GrammarSource): GrammarSource {
  const named = (name: string) => `${prefix} ${name}`;
  return {
    start: renamed(start, named),
    rules: new Map(Array.from(rules, ([name, body]) => [named(name), renamed(body, named)])),
  };
}

/** What the reader skips before a call: white space as JavaScript defines it, and what separates calls. */
const spaceRanges: readonly CodePointRange[] = [...SPACE, ...rangesOf([0x2c, 0x3b])];
const spaces = repeat(characters(spaceRanges), 0, null);
/** How an object that is read as a call begins, after its brace. */
const callBeginnings = [
  ...['"name"', '"arguments"', '"parameters"'],
  ...['"type":"function"', '"type": "function"'],
];

interface Beginning {
  next: Map<number, Beginning>;
  name: string;
}

/**
 * The rules of any text except one that begins as a bare call, also where the call has other white space than usual:
 * other objects are legal.
 */
function noCallRules(name: string): Map<string, Expression> {
  const nodes: Beginning[] = [];
  const add = (): Beginning => {
    const node = { next: new Map(), name: nodes.length === 0 ? name : `${name} ${nodes.length}` };
    nodes.push(node);
    return node;
  };
  const root = add();
  const ends = new Set(callBeginnings.map((text) => insertText(root, `{${text}`, add)));
  const brace = root.next.get('{'.charCodeAt(0));
  const anything = repeat(characters(ANY_CHARACTER), 0, null);
  const rules = new Map<string, Expression>();
  for (const node of nodes) {
    if (ends.has(node)) continue;
    const mayBeSpaced = node === root || node === brace;
    const others = complement([...rangesOf(node.next.keys()), ...(mayBeSpaced ? spaceRanges : [])]);
    rules.set(
      node.name,
      choice([
        literal(''),
        sequence([characters(others), anything]),
        ...(mayBeSpaced ? [sequence([characters(spaceRanges), rule(node.name)])] : []),
        ...Array.from(node.next)
          .filter(([, child]) => !ends.has(child))
          .map(([code, child]) => sequence([characters(rangesOf([code])), rule(child.name)])),
      ]),
    );
  }
  return rules;
}
