import { type ExactJson, exactJsonOf, exactText, JsonNumber } from '../../util/exact-json.ts';

/** The members of a JSON object as parameters, each `<parameter=city>\nRome\n</parameter>\n`. Other text stays as it is. */
export function parameterTexts(json: string): string {
  const value = exactJsonOf(json);
  if (!(value instanceof Map)) return json;
  return Array.from(value, ([name, item]) => `<parameter=${name}>\n${textOf(item)}\n</parameter>\n`).join('');
}

/** Texts as they are, objects and lists as JSON, and the words of Python, as Qwen's templates write them. */
function textOf(value: ExactJson): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return typeof value === 'string' ? value : exactText(value);
}

/** The types that an argument of a call may have. */
type TypesOf = (argument: string) => ReadonlySet<string>;

const words: Readonly<Record<string, ExactJson>> = { True: true, False: false, None: null };

/** A text as JSON: of the first of these types that it is, else a string. */
function jsonOf(text: string, types: ReadonlySet<string>): string {
  // A text with white space around it is a text, if it may be one.
  const written = types.has('string') ? text : text.trim();
  const value = Object.hasOwn(words, written) ? words[written] : exactJsonOf(written);
  const isOther = value !== undefined && typeof value !== 'string' && written === written.trim();
  return isOther && types.has(typeOf(value)) ? exactText(value) : JSON.stringify(text);
}

function typeOf(value: ExactJson): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return value instanceof JsonNumber ? 'number' : value instanceof Map ? 'object' : typeof value;
}

/** A member of arguments that was read. */
export interface ReadMember {
  /** In characters, with what follows it. */
  length: number;
  /** As a member of a JSON object; null for the end of arguments alone. */
  json: string | null;
  /** Whether arguments go on, end here, or break off. */
  after: 'more' | 'end' | 'break';
}

const opening = '<parameter=';
/** A parameter ends where the next one begins or the call ends, since a text may have the tag that closes it. */
const closing = /<\/parameter>(?=\s*(?:<parameter=|<\/(?:function|tool_call)>))/g;
const head = /^\s*<parameter=([^>]*)>/;
const endOfCall = /^\s*(?=<\/)/;

/** Reads parameters one after the other. The text that it is given may grow, and begins with the next parameter. */
export class ParameterReader {
  readonly #typesOf: TypesOf;
  /** How far the current one has been searched for its end. */
  #searched = 0;

  constructor(typesOf: TypesOf) {
    this.#typesOf = typesOf;
  }

  /** The parameter that the text begins with, once it is whole; null if more text is needed. */
  next(text: string): ReadMember | null {
    const end = endOfCall.exec(text);
    if (end) return { length: end[0].length, json: null, after: 'end' };
    const begun = head.exec(text);
    const start = begun?.[0].length ?? 0;
    if (!begun) {
      const begins = text.trimStart();
      if (opening.startsWith(begins.slice(0, opening.length))) return null;
      // What is no parameter stays as it is.
      const until = text.search(/<parameter=|<\/function>|<\/tool_call>/);
      return until < 0 ? null : { length: until, json: text.slice(0, until).trim(), after: 'more' };
    }
    closing.lastIndex = Math.max(start, this.#searched);
    const found = closing.exec(text);
    if (!found) {
      // White space between two parameters may still grow.
      const last = text.lastIndexOf('</parameter');
      this.#searched = last < 0 ? Math.max(start, text.length - opening.length) : last;
      return null;
    }
    this.#searched = 0;
    const name = begun[1] ?? '';
    const value = text.slice(start, found.index).replace(/^\n/, '').replace(/\n$/, '');
    return {
      length: found.index + '</parameter>'.length,
      json: `${JSON.stringify(name)}:${jsonOf(value, this.#typesOf(name))}`,
      after: 'more',
    };
  }
}
