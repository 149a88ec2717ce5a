import { describe, expect, it } from 'vitest';
import { RequestValidationError } from '../../../src/service/errors.ts';
import { validate } from '../../../src/service/validation.ts';
import type { JsonSchema } from '../../support/json-schema.ts';
import { entryName, instanceWith, leastOf, type Place, placesOfRequests, typesOf } from './request-bounds.ts';

const shown = ({ operation, way }: Place) => `${operation} ${way.join('.')}`;

const places = placesOfRequests();
/** One of the paths with the same name and bounds. */
const distinct = new Map(
  places.map((place) => [`${place.way.findLast(isName)} ${JSON.stringify(place.node)}`, place]),
).values();

/** Annotations, audio, arguments of processors, and what clients add to a reply or repeat in its text. */
const unread = new Set([
  ...['annotations', 'audio', 'args', 'parsed', 'provider_specific_fields'],
  ...['role', 'refusal', 'reasoning', 'reasoning_content', 'tool_calls', 'function_call'],
]);

/** Paths that are unbounded in the schema, and why that is harmless. */
const unboundedOnPurpose: [what: string, is: (place: Place) => boolean][] = [
  [
    'values that the caller forms freely: the JSON around them is bounded as a whole',
    ({ way, node }) => Object.keys(node).length === 0 && way.at(-1) === entryName,
  ],
  [
    'what nothing reads further than to its end: the body is bounded',
    ({ way, node }) => node.type === undefined && unread.has(String(way.findLast(isName))),
  ],
  [
    'figures that are kept as they are and not computed with',
    ({ way, node }) =>
      typesOf(node).includes('number') && way.some((step) => step === 'metrics' || step === 'auto_metrics'),
  ],
  ['figures of metadata', ({ way, node }) => typesOf(node).includes('number') && way.includes('metadata')],
  [
    'numbers for logits processors, which are code of the operator',
    ({ way, node }) => typesOf(node).includes('number') && way.includes('engine_xargs'),
  ],
];

function isName(step: string | number): boolean {
  return typeof step === 'string' && !step.startsWith('|') && step !== entryName;
}

/** Why a path accepts values of any size, or null if it does not. */
function problem(place: Place): string | null {
  const { node } = place;
  if (unboundedOnPurpose.some(([, is]) => is(place))) return null;
  if (node.const !== undefined || node.enum || node.anyOf || node.oneOf) return null;
  if (node.not !== undefined && Object.keys(node).length === 1) return null;
  if (node.type === undefined) return 'takes anything';
  return typesOf(node).flatMap((type) => missingBounds(type, node))[0] ?? null;
}

function missingBounds(type: string, node: JsonSchema): string[] {
  switch (type) {
    case 'string':
      if (node.maxLength !== undefined || node.format === 'uuid') return [];
      return isBoundedPattern(node.pattern) ? [] : ['no maxLength'];
    case 'array':
      return node.maxItems === undefined ? ['no maxItems'] : [];
    case 'integer':
    case 'number': {
      const low = node.minimum ?? node.exclusiveMinimum;
      const high = node.maximum ?? node.exclusiveMaximum;
      return low === undefined || high === undefined ? ['no minimum or no maximum'] : [];
    }
    case 'object':
      if (node.properties) return [];
      if (node.maxProperties === undefined) return ['no maxProperties'];
      return node.propertyNames?.maxLength === undefined ? ['no maxLength of names'] : [];
    default:
      return [];
  }
}

/** A pattern without unbounded repetition. */
const isBoundedPattern = (pattern: string | undefined) =>
  pattern?.startsWith('^') &&
  pattern.endsWith('$') &&
  !/[*+]|\{\d+,\}/.test(pattern.replace(/\[[^\]]*\]/g, ''));

interface Border {
  type: string;
  fits: unknown;
  exceeds: unknown;
}

/** Values at the bounds of a path, and one beyond each. */
function bordersOf({ node, root }: Place): Border[] {
  const borders: Border[] = [];
  const { maxLength, maxItems, maxProperties, minimum, maximum } = node;
  if (node.enum || node.const !== undefined) return [];
  if (maxLength !== undefined && node.pattern === undefined && node.format === undefined)
    borders.push({
      type: 'string_too_long',
      fits: 'a'.repeat(maxLength),
      exceeds: 'a'.repeat(maxLength + 1),
    });
  if (maxItems !== undefined) {
    const item = leastOf(node.items ?? {}, root);
    borders.push({
      type: 'too_long',
      fits: Array(maxItems).fill(item),
      exceeds: Array(maxItems + 1).fill(item),
    });
  }
  if (maxProperties !== undefined && maxProperties <= 1024) {
    const { additionalProperties: inner } = node;
    const value = leastOf(typeof inner === 'object' ? inner : {}, root);
    const entries = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [String(index), value]));
    borders.push({ type: 'too_long', fits: entries(maxProperties), exceeds: entries(maxProperties + 1) });
  }
  if (maxProperties !== undefined && maxProperties > 1024) {
    // Of the JSON text: {"a":""} has eight characters.
    const free = (length: number) => ({ a: 'a'.repeat(length - 8) });
    borders.push({ type: 'string_too_long', fits: free(maxProperties), exceeds: free(maxProperties + 1) });
  }
  const isSafe = (value: number | undefined) => value !== undefined && Number.isSafeInteger(value * 2);
  if (maximum !== undefined && isSafe(maximum))
    borders.push({ type: 'less_than_equal', fits: maximum, exceeds: maximum + 1 });
  if (minimum !== undefined && isSafe(minimum))
    borders.push({ type: 'greater_than_equal', fits: minimum, exceeds: minimum - 1 });
  return borders;
}

/** The error for a value at a path, by type. */
function problemsIn({ schema, root, way }: Place, value: unknown): string[] {
  const at = way.filter((step) => typeof step === 'number' || isName(step) || step === entryName).join('.');
  try {
    validate(schema, instanceWith(root, root, way, value), 'body');
    return [];
  } catch (error) {
    if (!(error instanceof RequestValidationError)) throw error;
    return error.issues.filter(({ loc }) => loc.slice(1).join('.') === at).map(({ type }) => type);
  }
}

describe('the size of a request', () => {
  it('is bounded in every field, or unbounded for a listed reason', () => {
    expect(places.length).toBeGreaterThan(1000);
    const without = places.flatMap((place) => {
      const reason = problem(place);
      return reason === null ? [] : [`${shown(place)}: ${reason}`];
    });
    expect([...new Set(without)]).toEqual([]);
  });

  it('may be at the bound, and not one above', { tags: ['long'] }, () => {
    const wrong: string[] = [];
    let tried = 0;
    for (const place of distinct)
      for (const { type, fits, exceeds } of bordersOf(place)) {
        tried++;
        if (problemsIn(place, fits).includes(type)) wrong.push(`${shown(place)}: refuses its ${type}`);
        if (!problemsIn(place, exceeds).includes(type))
          wrong.push(`${shown(place)}: takes more than its ${type} allows`);
      }
    expect(wrong).toEqual([]);
    expect(tried).toBeGreaterThan(100);
  });
});
