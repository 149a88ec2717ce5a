import { type ExactJson, exactJsonOf, JsonNumber } from '../../util/exact-json.ts';
import type { ReadMember } from './parameter-text.ts';

/*
 * Literals of Python in calls such as `find(city="Rome", days=[1, 2])`: https://docs.python.org/3/reference/lexical_analysis.html
 */

/** The members of a JSON object as keyword arguments: `{"a":1,"b":null}` becomes `a=1, b=None`. Other text stays as it is. */
export function keywordArguments(json: string): string {
  const value = exactJsonOf(json);
  if (!(value instanceof Map)) return json;
  return Array.from(value, ([name, item]) => `${name}=${literalOf(item)}`).join(', ');
}

/** As Python's `repr` writes a value, but texts as JSON does, in double quotes. */
function literalOf(value: ExactJson): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(literalOf).join(', ')}]`;
  if (!(value instanceof Map)) return value instanceof JsonNumber ? value.source : JSON.stringify(value);
  const members = Array.from(value, ([key, item]) => `${JSON.stringify(key)}: ${literalOf(item)}`);
  return `{${members.join(', ')}}`;
}

/** A keyword argument as a member of a JSON object: `city='Rome'` becomes `"city":"Rome"`. Other text stays as it is. */
function jsonMember(argument: string): string {
  const text = argument.trim();
  const name = /^[^\s=,()[\]{}'"]+(?=\s*=)/.exec(text)?.[0];
  const value = name === undefined ? null : jsonOf(text.slice(text.indexOf('=') + 1));
  return name === undefined || value === null ? text : `${JSON.stringify(name)}:${value}`;
}

/** A text, a number, a word, a comma between a value and a closing bracket, or another mark, with the white space before it. */
const token =
  /\s*(?:("[^"\\]*(?:\\[\s\S][^"\\]*)*"|'[^'\\]*(?:\\[\s\S][^'\\]*)*')|([-+]?(?:\d(?:_?\d)*(?:\.(?:\d(?:_?\d)*)?)?|\.\d(?:_?\d)*)(?:[eE][-+]?\d+)?)(?![\w.])|(True|False|None|true|false|null)(?!\w)|(?<=[^\s[{,:]\s*),(?=\s*[\]}])|([[\]{},:]))/y;

const words: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' };

/**
 * A literal as JSON: texts, numbers, `True`, `False`, `None`, lists, and dicts with texts as keys; also the words of JSON,
 * which LFM2's templates write in dicts. Texts may have line breaks in them, and integers leading zeros, which Python
 * refuses and models write. Null for anything else.
 */
function jsonOf(literal: string): string | null {
  const pattern = new RegExp(token);
  const text = literal.trimEnd();
  const tokens: string[] = [];
  try {
    while (pattern.lastIndex < text.length) {
      const found = pattern.exec(text);
      if (!found) return null;
      const [, quoted, number, word, mark] = found;
      if (quoted !== undefined) tokens.push(JSON.stringify(unescaped(quoted.slice(1, -1))));
      else if (number !== undefined) tokens.push(jsonNumber(number));
      else if (word !== undefined) tokens.push(words[word] ?? word);
      else if (mark !== undefined) tokens.push(mark);
    }
    JSON.parse(tokens.join(' '));
    return tokens.join('');
  } catch {
    return null;
  }
}

/** With all its digits, but without what JSON does not have: underscores, a plus, leading zeros, a point at an end. */
const jsonNumber = (number: string): string =>
  number
    .replaceAll('_', '')
    .replace(/^\+/, '')
    .replace(/^(-?)0+(?=\d)/, '$1')
    .replace(/^(-?)\./, '$10.')
    .replace(/\.(?!\d)/, '.0');

const escapes =
  /\\(?:\r?\n|x([\dA-Fa-f]{2})|u([\dA-Fa-f]{4})|U([\dA-Fa-f]{8})|([0-7]{1,3})|([\\'"abfnrtv]))/g;

/** By the letter of their escapes; quotes and the backslash are their own. */
const controls: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/** A backslash before any other character stays, as in Python. @throws RangeError for an escape that is no character */
const unescaped = (text: string): string =>
  text.replace(escapes, (_, two?: string, four?: string, eight?: string, octal?: string, one?: string) => {
    const hex = two ?? four ?? eight;
    if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
    if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
    return one === undefined ? '' : (controls[one] ?? one);
  });

/** Reads keyword arguments one after the other. The text that it is given may grow, and begins with the next argument. */
export class KeywordReader {
  #scanner = new ArgumentScanner();

  /** The argument that the text begins with, once it is whole; null if more text is needed. */
  next(text: string): ReadMember | null {
    const end = this.#scanner.end(text);
    if (end < 0) return null;
    this.#scanner = new ArgumentScanner();
    const written = text.slice(0, end);
    const mark = text[end];
    // Nothing, or a comma, before the end.
    const isLeftOut = mark === ')' && written.trim() === '';
    return {
      length: end + 1,
      json: isLeftOut ? null : jsonMember(written),
      after: mark === ',' ? 'more' : mark === ')' ? 'end' : 'break',
    };
  }
}

/** Finds where an argument of a call ends: at a comma or a closing bracket that is not in brackets or in a text. */
class ArgumentScanner {
  #read = 0;
  #depth = 0;
  #quote = '';

  /** Where the argument that the text begins with ends; -1 if more text is needed. The text may grow between calls. */
  end(text: string): number {
    for (; this.#read < text.length; this.#read++) {
      const character = text[this.#read] ?? '';
      if (this.#quote !== '') {
        if (character === '\\') this.#read++;
        else if (character === this.#quote) this.#quote = '';
      } else if (character === '"' || character === "'") this.#quote = character;
      else if ('([{'.includes(character)) this.#depth++;
      else if (this.#depth === 0 && ',)]}'.includes(character)) return this.#read;
      else if (')]}'.includes(character)) this.#depth--;
    }
    return -1;
  }
}
