import { printable } from '../contract/index.ts';
import { invalidOption, OptionError } from '../util/option-error.ts';
import { meanOf } from '../util/sums.ts';
import {
  type ComparedScores,
  type CompareOptions,
  type Comparison,
  comparePair,
  describePair,
  type PairedScore,
} from './compare-pair.ts';
import { readEvaluation } from './read-evaluation.ts';

/** What `evaluate` returns, or the path of a stored evaluation, as `readEvaluation` takes it. */
export type EvaluationSource = ComparedScores | string;

export interface HoldOptions extends CompareOptions {
  /** How much worse the mean may be, in units of the measure: 0.02 of `success` are two percentage points. At least 0. */
  margin: number;
}

interface GateResult {
  pass: boolean;
  /** What was found, for people: measure, both values, interval, test, and the scenarios that changed. */
  report: string;
}

const code = 'invalid_evaluation_option';

/** Scenarios that a report names, of those that became better and of those that became worse. */
const maxNamed = 10;

/**
 * Whether an evaluation is better than a baseline: its mean is higher, and the paired test of `compare` gives at most
 * 1 - `confidence`. With `margin` instead: whether it is not worse by more than the margin, so the whole interval of the
 * difference, at `confidence`, is at or above minus the margin.
 * @throws OptionError if the two cannot be compared: scenarios that only one of them has a score for, or too few; an
 *   option that cannot be used. RunError for a stored evaluation that cannot be read.
 */
export async function gate(
  source: EvaluationSource,
  baseline: EvaluationSource,
  options: CompareOptions | HoldOptions = {},
): Promise<GateResult> {
  const { margin, ...rest } = 'margin' in options ? options : { ...options, margin: null };
  if (margin !== null && !(margin >= 0 && Number.isFinite(margin)))
    throw invalidOption(code, 'margin', margin, 'Pass a number of at least 0.');
  const [b, a] = [await evaluationOf('evaluation', source), await evaluationOf('baseline', baseline)];
  const name = a.policy === b.policy ? `${a.policy} (baseline)` : a.policy;
  const comparison = comparePair({ ...a, policy: name }, b, rest);
  checkComparable(comparison);
  const [pass, verdict] = margin === null ? beats(comparison) : holds(comparison, margin);
  return { pass, report: reportOf(comparison, verdict, scenarioTexts(b)) };
}

/** @throws OptionError under the name for anything else; the errors of `readEvaluation`. */
export async function evaluationOf(name: string, source: EvaluationSource): Promise<ComparedScores> {
  if (typeof source === 'string') return readEvaluation(source);
  if (typeof source === 'object' && source !== null && Array.isArray(source.perScenario)) return source;
  throw invalidOption(
    code,
    name,
    source,
    'Pass what `evaluate` returned, or the path of a stored evaluation.',
  );
}

function beats({ a, b, difference, test, confidence }: Comparison): [boolean, string] {
  const level = Number((1 - confidence).toPrecision(6));
  if (!difference || !test || difference.mean <= 0)
    return [false, `${b} does not beat ${a}: it is not better`];
  const p = `p = ${test.pValue.toPrecision(3)}`;
  return test.pValue <= level
    ? [true, `${b} beats ${a}`]
    : [false, `${b} does not beat ${a}: the difference may be chance, ${p} is above ${level}`];
}

function holds({ a, b, interval }: Comparison, margin: number): [boolean, string] {
  const against = `against ${a} within ${margin}`;
  if (interval && interval.low >= -margin) return [true, `${b} holds ${against}`];
  if (interval && interval.high < -margin)
    return [false, `${b} does not hold ${against}: it is worse by more than that`];
  return [
    false,
    `${b} does not hold ${against}: it may be worse by ${Math.abs(interval?.low ?? 0).toFixed(3)}; more scenarios, or more rollouts of each, make the interval narrower`,
  ];
}

/** @throws OptionError */
function checkComparable({ measure, a, b, pairs, onlyInA, onlyInB, confidence }: Comparison): void {
  if (pairs.length === 0 && onlyInA.length + onlyInB.length === 0)
    throw notComparable(
      `no scenario of ${a} or ${b} has a ${measure}: ${measure === 'success' ? 'the environment needs the metric `success`, or `evaluate` the option `isSuccess`' : 'no rollout completed'}`,
    );
  const alone = [
    ...(onlyInA.length > 0 ? [`only ${a} has a ${measure} for ${namesOf(onlyInA)}`] : []),
    ...(onlyInB.length > 0 ? [`only ${b} has a ${measure} for ${namesOf(onlyInB)}`] : []),
  ];
  if (alone.length > 0)
    throw notComparable(
      `${alone.join('; ')}. Evaluate both on the same scenarios; where rollouts failed, evaluate those again`,
    );
  const fewest = Math.ceil(1 - Math.log2(1 - confidence));
  if (pairs.length < fewest)
    throw notComparable(
      `${pairs.length} scenarios are too few for a confidence of ${confidence}: with fewer than ${fewest}, even a difference on every one may be chance`,
    );
}

const notComparable = (problem: string): OptionError =>
  new OptionError(code, `The evaluations cannot be compared: ${problem}.`, { option: 'baseline' });

const namesOf = (keys: readonly string[]): string =>
  `${keys.slice(0, maxNamed).map(printable).join(', ')}${keys.length > maxNamed ? ` and ${keys.length - maxNamed} more` : ''}`;

function reportOf(comparison: Comparison, verdict: string, texts: ReadonlyMap<string, string>): string {
  const { measure, a, b, pairs } = comparison;
  const mean = (side: 'a' | 'b') => meanOf(pairs.map((pair) => pair[side])).toFixed(3);
  const changed = [...pairs].sort((x, y) => Math.abs(y.difference) - Math.abs(x.difference));
  return [
    `${measure}: ${verdict}`,
    `${measure} of ${a}: ${mean('a')}`,
    `${measure} of ${b}: ${mean('b')}`,
    describePair(comparison).trimEnd(),
    ...flipLines(
      'worse',
      changed.filter(({ difference }) => difference < 0),
      texts,
    ),
    ...flipLines(
      'better',
      changed.filter(({ difference }) => difference > 0),
      texts,
    ),
  ].join('\n');
}

function flipLines(
  name: string,
  flips: readonly PairedScore[],
  texts: ReadonlyMap<string, string>,
): string[] {
  const value = (number: number) => String(Number(number.toFixed(3)));
  const lines = flips.slice(0, maxNamed).map(({ key, a, b }) => {
    const text = texts.get(key);
    return `  ${printable(key)}: ${value(a)} -> ${value(b)}${text === undefined ? '' : `  ${text}`}`;
  });
  if (flips.length > maxNamed) lines.push(`  and ${flips.length - maxNamed} more`);
  return lines.length > 0 ? [`${name}:`, ...lines] : [];
}

/** Scenarios as short texts: a key may be a hash, which tells nothing. */
function scenarioTexts({ perScenario }: ComparedScores): ReadonlyMap<string, string> {
  return new Map(
    perScenario.flatMap(({ key, scenario }) => {
      const text = typeof scenario === 'string' ? scenario : (JSON.stringify(scenario) ?? '');
      if (text === '' || text === key) return [];
      const plain = printable(text.replaceAll(/\s+/g, ' '));
      return [[key, plain.length > 80 ? `${plain.slice(0, 79)}…` : plain] as const];
    }),
  );
}
