import { LRUCache } from 'lru-cache';
import { largestOf, smallestOf } from '../../../util/extremes.ts';
import { getOrInsert } from '../../../util/get-or-insert.ts';
import { isObject } from '../../../util/json.ts';
import {
  ANY_CHARACTER,
  characters,
  choice,
  type Expression,
  intersection,
  lengthsOf,
  literal,
  repeat,
  withLeaves,
} from '../expression.ts';
import { patternLanguage } from '../look-around.ts';
import type { Language, RegularState } from '../nondeterministic.ts';
import { plainSpelling } from '../regex.ts';
import { distancesToEnd, regularExpression, regularStates } from '../regular.ts';
import type { Conjunction } from './conjunction.ts';
import { FORMAT_OF_PATTERN, patternOfFormat } from './formats.ts';
import { TextLayout } from './layout.ts';
import type { SchemaScope } from './scope.ts';
import { boundedString, jsonSpelling, ONE_UNIT, quoted, runOf } from './string.ts';
import { constantsIn } from './types.ts';

/** Cached, because patterns recur: each format has one, and the properties of a schema are alike. */
const languages = new LRUCache<string, Language>({ max: 64 });
const automata = new LRUCache<string, JointStates>({ max: 64 });
/** Most states of an automaton that counts the characters of its texts. */
const maxCounting = 2_000;
/**
 * Most states whose texts are counted besides, and most characters from one of them to the end of a text: the way there
 * is searched while sampling.
 */
const mostCounted = 1_500;
const farthestEnd = 200;

/** The texts with a match of a pattern. `where` is what messages begin with. */
const languageOf = (pattern: string, where = ''): Language =>
  getOrInsert(languages, pattern, () => patternLanguage(pattern, { where }));

const inJson = (language: Expression): Expression =>
  withLeaves(language, (leaf) => (leaf.kind === 'characters' ? jsonSpelling(leaf.ranges) : leaf));

/** What a text must be, all at once. */
interface TextRules {
  minimum: number;
  maximum: number | null;
  patterns: string[];
  excludedPatterns: string[];
  excludedTexts: string[];
}

export function stringWithin(all: Conjunction, scope: SchemaScope): Expression {
  all.checkCounts('minLength', 'maxLength');
  const bounds = { minimum: all.greatest('minLength') ?? 0, maximum: all.least('maxLength') };
  const patterns = patternsOf(all, bounds.maximum);
  const rules: TextRules = { ...withoutImplied(bounds, patterns), patterns, ...exclusionsOf(all) };
  if (scope.layout instanceof TextLayout) rules.excludedPatterns.push(...scope.layout.excluded);
  const { minimum, maximum } = rules;
  if (maximum !== null && minimum > maximum) return scope.nothing(all, 'minLength', 'is more than maxLength');
  if (rules.excludedPatterns.length > 0 || rules.excludedTexts.length > 0) return jointly(all, rules, scope);
  const [pattern, ...further] = rules.patterns;
  const isBounded = minimum > 0 || maximum !== null;
  if (pattern === undefined) return isBounded ? boundedString(minimum, maximum) : scope.layout.anyKey;
  if (further.length > 0) return jointly(all, rules, scope);
  const language = languageOf(pattern, whereOf(all));
  if (!('kind' in language)) return jointly(all, rules, scope);
  return isBounded ? (boundedRun(language, rules) ?? jointly(all, rules, scope)) : quoted(inJson(language));
}

/** The patterns that a text must match. A format has other patterns for texts of at most `maximum` characters. */
function patternsOf(all: Conjunction, maximum: number | null): string[] {
  const ofFormat = (format: string) => patternOfFormat(format, maximum) ?? [];
  const readable = (pattern: string) => {
    const format = FORMAT_OF_PATTERN.get(pattern);
    return format === undefined ? pattern : ofFormat(format);
  };
  const found = [...all.strings('pattern').flatMap(readable), ...all.strings('format').flatMap(ofFormat)];
  return [...new Set(found)];
}

/** The bounds but for those that a pattern has by itself: together they would multiply its states. */
function withoutImplied(
  { minimum, maximum }: Pick<TextRules, 'minimum' | 'maximum'>,
  patterns: readonly string[],
): Pick<TextRules, 'minimum' | 'maximum'> {
  if (minimum === 0 && maximum === null) return { minimum, maximum };
  const lengths = patterns.flatMap((pattern) => {
    const language = languageOf(pattern);
    return 'kind' in language ? [lengthsOf(language)] : [];
  });
  return {
    minimum: lengths.some(({ least }) => least >= minimum) ? 0 : minimum,
    maximum: lengths.some(({ most }) => maximum !== null && most <= maximum) ? null : maximum,
  };
}

function exclusionsOf(all: Conjunction): Pick<TextRules, 'excludedPatterns' | 'excludedTexts'> {
  const excludedPatterns: string[] = [];
  const excludedTexts: string[] = [];
  for (const not of all.values('not')) {
    if (!isObject(not)) continue;
    if (typeof not.pattern === 'string') excludedPatterns.push(not.pattern);
    for (const value of constantsIn(not) ?? []) if (typeof value === 'string') excludedTexts.push(value);
  }
  return { excludedPatterns, excludedTexts };
}

/** One set of characters, repeated as often as the pattern and the bounds allow. Null for other patterns. */
function boundedRun(run: Expression, { minimum, maximum }: TextRules): Expression | null {
  const only = run.kind === 'sequence' && run.parts.length === 1 ? run.parts[0] : null;
  if (only?.kind !== 'repeat' || only.body.kind !== 'characters') return null;
  const least = Math.max(minimum, only.minimum);
  const bounds = [maximum, only.maximum].filter((bound) => bound !== null);
  const most = bounds.length === 0 ? null : smallestOf(bounds);
  if (most !== null && least > most) return null;
  const ranges = maximum === null ? only.body.ranges : intersection(only.body.ranges, ONE_UNIT);
  return quoted(runOf(jsonSpelling(ranges), least, most));
}

const whereOf = ({ path }: Conjunction): string => `JSON schema, ${path}: `;

/** Strings that keep several rules, as an automaton. */
function jointly(all: Conjunction, rules: TextRules, scope: SchemaScope): Expression {
  const { states, counted } = getOrInsert(automata, JSON.stringify(rules), () =>
    jointStates(rules, whereOf(all)),
  );
  if (!states) {
    const keyword = ['pattern', 'format', 'not', 'maxLength', 'minLength'].find((name) => all.has(name));
    return scope.nothing(all, keyword ?? 'type', 'and the schemas that apply with it allow no string');
  }
  const isPlain = scope.layout instanceof TextLayout;
  const label = scope.newLabel();
  const body = regularExpression(states, isPlain ? plainSpelling : jsonSpelling, (index, one) =>
    scope.ruleNamed(`${label} ${index}`, one),
  );
  const content: Expression = counted === null ? body : { kind: 'counted', body, maximum: counted, isPlain };
  return isPlain ? content : quoted(content);
}

/** An automaton, and the most characters of its texts if they must be counted besides. */
interface JointStates {
  states: RegularState[] | null;
  counted: number | null;
}

/** The greatest length is counted besides if an automaton that counts would have too many states. */
function jointStates(rules: TextRules, where: string): JointStates {
  const { maximum } = rules;
  const states = statesOf(rules, null, where);
  if (!states || maximum === null) return { states, counted: null };
  if (states.length * maximum <= maxCounting || states.length > mostCounted)
    return { states: statesOf(rules, maximum, where), counted: null };
  const distances = distancesToEnd(states);
  if ((distances[0] ?? 0) > maximum) return { states: null, counted: null };
  // From a state of excluded texts alone there is no way.
  return largestOf(distances.filter(Number.isFinite)) > farthestEnd
    ? { states: statesOf(rules, maximum, where), counted: null }
    : { states, counted: maximum };
}

/** `maximum`: the greatest length that the automaton counts, which may be left to others. */
function statesOf(
  { minimum, maximum: bound, patterns: wanted, excludedPatterns, excludedTexts }: TextRules,
  maximum: number | null,
  where: string,
): RegularState[] | null {
  const parsed = (pattern: string) => languageOf(pattern, where);
  const character = characters(bound === null ? ANY_CHARACTER : ONE_UNIT);
  return regularStates(
    [...wanted.map(parsed), repeat(character, minimum, maximum)],
    [
      ...excludedPatterns.map(parsed),
      ...(excludedTexts.length > 0 ? [choice(excludedTexts.map(literal))] : []),
    ],
    where,
  );
}
