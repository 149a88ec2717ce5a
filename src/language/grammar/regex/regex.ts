import { LanguageError } from '../../error.ts';
import {
  ANY_CHARACTER,
  type CodePointRange,
  charactersOf,
  choiceOf,
  type Expression,
  repeat,
  sequenceOf,
} from '../expression.ts';
import { type Pattern, parsePattern, shownPattern } from './parse.ts';

/** How a set of characters is written in the text: unchanged, or with the escapes of a JSON string. */
export type Spelling = (ranges: readonly CodePointRange[]) => Expression;

export const plainSpelling: Spelling = charactersOf;

/** Texts that the expression matches as a whole. Anchors at its ends have no effect. */
export function wholeMatch(source: string, spelling: Spelling): Expression {
  return translate(source, spelling, false);
}

/** Texts that contain a match of the expression, as in JSON Schema's `pattern`. */
export function anyMatch(source: string, spelling: Spelling): Expression {
  return translate(source, spelling, true);
}

function translate(source: string, spelling: Spelling, anywhere: boolean): Expression {
  const around = anywhere ? repeat(spelling(ANY_CHARACTER), 0, null) : null;
  const alternatives = topAlternatives(parsePattern(source)).map((pattern) => {
    const parts = pattern.kind === 'sequence' ? [...pattern.parts] : [pattern];
    const anchoredStart = parts[0]?.kind === 'start';
    if (anchoredStart) parts.shift();
    const anchoredEnd = parts.at(-1)?.kind === 'end';
    if (anchoredEnd) parts.pop();
    const inner = parts.map((part) => express(part, spelling, source));
    if (around && !anchoredStart) inner.unshift(around);
    if (around && !anchoredEnd) inner.push(around);
    return sequenceOf(inner);
  });
  return choiceOf(alternatives);
}

/** Alternatives that may have their own anchors, including those in a group that is the whole expression. */
function topAlternatives(pattern: Pattern): Pattern[] {
  if (pattern.kind === 'choice') return pattern.alternatives.flatMap(topAlternatives);
  return [pattern];
}

function express(pattern: Pattern, spelling: Spelling, source: string): Expression {
  switch (pattern.kind) {
    case 'set':
      return spelling(pattern.ranges);
    case 'sequence':
      return sequenceOf(pattern.parts.map((part) => express(part, spelling, source)));
    case 'choice':
      return choiceOf(pattern.alternatives.map((part) => express(part, spelling, source)));
    case 'repeat':
      return repeat(express(pattern.body, spelling, source), pattern.minimum, pattern.maximum);
    default:
      throw new LanguageError(
        'regex_unsupported',
        `regular expression ${shownPattern(source)}: ^ is understood at the beginning only, and $ at the end`,
      );
  }
}
