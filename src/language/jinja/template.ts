import { parse, tokenize } from '@huggingface/jinja';
import { JsonNumber } from '../../util/exact-json.ts';
import { run } from './interpreter.ts';
import { isNode, type Node } from './nodes.ts';
import { integerOf } from './python-text.ts';
import { strftime } from './strftime.ts';
import { itemsOf, Namespace, TemplateError, toText, type Value } from './value.ts';

/**
 * A Jinja template, rendered as transformers renders chat templates with Jinja2: the same filters, tests and methods,
 * Python's numbers and texts. The library's parser reads it; its own interpreter differs from Jinja2 in too much.
 */
export class Template {
  readonly nodes: Node[];

  constructor(source: string) {
    const { body } = parse(tokenize(withoutRaw(source), { lstrip_blocks: true, trim_blocks: true }));
    this.nodes = body.filter(isNode);
  }

  /** `variables`: values of JSON, also those of `parseExactJson`. @throws TemplateError */
  render(variables: Readonly<Record<string, unknown>> = {}): string {
    const values = Object.entries(variables).map(([name, value]): [string, Value] => [name, toValue(value)]);
    return run(this.nodes, new Map([...globals, ...values]));
  }
}

/** A value of JSON as Python's `json.loads` reads it. */
export function toValue(value: unknown): Value {
  if (value === undefined || value === null || typeof value === 'boolean' || typeof value === 'string')
    return value;
  if (typeof value === 'number') return numberOf(JSON.stringify(value));
  if (value instanceof JsonNumber) return numberOf(value.source);
  if (Array.isArray(value)) return value.map(toValue);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return new Map(entries.map(([key, item]) => [String(key), toValue(item)]));
}

/** Without a fraction and an exponent a number is an int, which keeps all digits. */
const numberOf = (source: string) => (/^-?\d+$/.test(source) ? BigInt(source) : Number(source));

/** As in Jinja2's sandbox. */
const maxRange = 100_000;

const globals: ReadonlyMap<string, Value> = new Map<string, Value>([
  ...[true, false, null].flatMap((value): [string, Value][] => {
    const name = toText(value);
    return [
      [name, value],
      [name.toLowerCase(), value],
    ];
  }),
  [
    'raise_exception',
    ([message]) => {
      throw new TemplateError(toText(message));
    },
  ],
  [
    'range',
    (args) => {
      const [one = 0, other, step = 1] = args.map(integerOf);
      const [start, stop] = other === undefined ? [0, one] : [one, other];
      if (step === 0) throw new TemplateError('the step of a range cannot be zero');
      const length = Math.max(0, Math.ceil((stop - start) / step));
      if (length > maxRange)
        throw new TemplateError(`a range of ${length} numbers is too long; the maximum is ${maxRange}`);
      return Array.from({ length }, (_, index) => BigInt(start + index * step));
    },
  ],
  ['namespace', ([given], keywords) => new Namespace(new Map([...entriesOf(given), ...keywords]))],
  ['dict', ([given], keywords) => new Map([...entriesOf(given), ...keywords])],
  ['strftime_now', ([format]) => strftime(new Date(), toText(format))],
]);

function entriesOf(value: Value): [string, Value][] {
  if (value instanceof Map) return [...value];
  return itemsOf(value).map((pair) => {
    const [key, item] = itemsOf(pair);
    return [toText(key), item];
  });
}

/** What the library's lexer lacks: the text of a raw block becomes a literal. */
function withoutRaw(source: string): string {
  return source.replace(
    segments,
    (segment: string, left = '', inner = '', text = '', end = '', right = '') => {
      if (!segment.startsWith('{%') || !rawBegin.test(segment)) return segment;
      let raw = inner === '-' ? text.trimStart() : text;
      raw = end === '-' ? raw.trimEnd() : end === '+' ? raw : raw.replace(/(^|\n)[ \t]*$/, '$1');
      return `{%${left} if true %}{{ ${JSON.stringify(raw).replace(/[{}%#]/g, codeOf)} }}{% endif ${right}%}`;
    },
  );
}

const codeOf = (character: string) => `\\x${character.charCodeAt(0).toString(16)}`;

const rawBegin = /^\{%[-+]?\s*raw\s*-?%\}/;
/** Comments and tags, in which `raw` means nothing, and raw blocks with the signs of their tags. */
const segments =
  /\{#[\s\S]*?#\}|\{\{[\s\S]*?\}\}|\{%([-+]?)\s*raw\s*(-?)%\}([\s\S]*?)\{%([-+]?)\s*endraw\s*(-?)%\}|\{%[\s\S]*?%\}/g;
