import { parse, tokenize } from '@huggingface/jinja';
import { isNode, type Node } from './nodes.ts';
import { TemplateError } from './value.ts';

/** The nodes of a template. What the library's lexer lacks is put into the source and the tokens before it parses. */
export function nodesOf(source: string): Node[] {
  const lines = source.replace(/\r\n?/g, '\n');
  if (lines.search(longSpace) >= 0)
    throw new TemplateError(`it has more than ${longestSpace} spaces and line ends in a row; remove them`);
  const tokens = tokenize(withoutRaw(lines), { lstrip_blocks: true, trim_blocks: true });
  return parse(prepared(tokens)).body.filter(isNode);
}

/** The library's lexer takes the square of it: a millisecond for this many. */
const longestSpace = 512;
const longSpace = new RegExp(`\\s{${longestSpace + 1}}`);

type Token = ReturnType<typeof tokenize>[number];

const opening: readonly string[] = ['OpenParen', 'OpenSquareBracket', 'OpenCurlyBracket'];
const closing: readonly string[] = ['CloseParen', 'CloseSquareBracket', 'CloseCurlyBracket'];

/**
 * Operators of comparisons get their depth in brackets, which tells a chain from a comparison in parentheses, and
 * integers that a float cannot hold become `('...' | int)`.
 */
function prepared(tokens: readonly Token[]): Token[] {
  const result: (Token & { depth?: number })[] = [];
  const isName = (at: number, name: string) => tokens[at]?.type === 'Identifier' && tokens[at].value === name;
  const isNotIn = (at: number) => isName(at, 'not') && isName(at + 1, 'in') && !isName(at - 1, 'is');
  let depth = 0;
  for (const [index, token] of tokens.entries()) {
    if (opening.includes(token.type)) depth++;
    else if (closing.includes(token.type)) depth--;
    if (isNotIn(index)) result.push({ value: 'not in', type: 'ComparisonBinaryOperator', depth });
    else if (isNotIn(index - 1)) continue;
    else if (isName(index, 'in') || token.type === 'ComparisonBinaryOperator')
      result.push({ ...token, depth });
    else if (token.type === 'NumericLiteral' && isLong(token.value)) result.push(...integer(token.value));
    else result.push(token);
  }
  return result;
}

const isLong = (number: string) => !number.includes('.') && !Number.isSafeInteger(Number(number));

const integer = (digits: string): Token[] => [
  { value: '(', type: 'OpenParen' },
  { value: digits, type: 'StringLiteral' },
  { value: '|', type: 'Pipe' },
  { value: 'int', type: 'Identifier' },
  { value: ')', type: 'CloseParen' },
];

/** The text of a raw block becomes a literal. */
function withoutRaw(source: string): string {
  return source.replace(
    segments,
    (segment: string, left = '', inner = '', text = '', end = '', endraw?: string, right = '') => {
      if (!rawBegin.test(segment)) return segment;
      if (endraw === undefined) throw new TemplateError(`a raw block has no {% endraw %}: ${segment}`);
      let raw = inner === '-' ? text.trimStart() : text;
      raw = end === '-' ? raw.trimEnd() : end === '+' ? raw : raw.replace(/(^|\n)[ \t]*$/, '$1');
      return `{%${left} if true %}{{ ${JSON.stringify(raw).replace(/[{}%#]/g, codeOf)} }}{% endif ${right}%}`;
    },
  );
}

const codeOf = (character: string) => `\\x${character.charCodeAt(0).toString(16)}`;

const rawBegin = /^\{%[-+]?\s*raw\s*-?%\}/;
/** Comments and tags, in which `raw` means nothing, and raw blocks with the signs of their tags. Open ones end the source. */
const segments =
  /\{#[\s\S]*?(?:#\}|$)|\{\{[\s\S]*?(?:\}\}|$)|\{%([-+]?)\s*raw\s*(-?)%\}([\s\S]*?)(?:\{%([-+]?)\s*(endraw)\s*(-?)%\}|$)|\{%[\s\S]*?(?:%\}|$)/g;
