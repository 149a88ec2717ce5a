import { rewardChanges } from '../environment/index.ts';
import { randomSource } from '../trajectory/index.ts';
import { invalidOption, OptionError } from '../util/option-error.ts';
import { checkArgument, checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { sumOf } from '../util/sums.ts';
import { type Estimate, estimate, type Interval, isZeroOrOne, normalInterval } from './estimate.ts';
import type { Evaluation } from './evaluate.ts';
import type { ScenarioScore } from './score-scenario.ts';
import { describeEstimate } from './table.ts';

export interface CompareOptions {
  /** The score to compare. Default `reward`. */
  measure?: 'reward' | 'success';
  /** Probability of the interval of the difference, from 0.5 to 0.999. Default 0.95. */
  confidence?: number;
  /** Seed of the random sign assignments, if there are too many to enumerate. Default 0. */
  seed?: number;
}

const code = 'invalid_evaluation_option';

const compareNames = {
  measure: true,
  confidence: true,
  seed: 'whole',
} satisfies OptionNames<CompareOptions>;

/** The part of an evaluation that is compared. What is absent is not known, and not compared. */
export interface ComparedScores
  extends Pick<Evaluation, 'policy'>,
    Partial<Pick<Evaluation, 'rewards' | 'prices'>> {
  environment?: string | undefined;
  successBy?: string | undefined;
  perScenario: readonly (Pick<ScenarioScore<unknown>, 'key' | 'reward' | 'success'> & {
    [Name in 'title' | 'completed' | 'judged' | 'tokens' | 'milliseconds']?:
      | ScenarioScore<unknown>[Name]
      | undefined;
  } & { scenario?: unknown })[];
}

export interface PairedScore {
  key: string;
  a: number;
  b: number;
  /** `b` - `a`. */
  difference: number;
}

export interface Comparison {
  measure: 'reward' | 'success';
  /** Names of the two models. */
  a: string;
  b: string;
  /**
   * Mean of `b` - `a` over the paired scenarios, with a normal interval, for shares within [-1, 1]; null without a pair.
   */
  difference: Estimate | null;
  confidence: number;
  /** The interval of the difference at `confidence`; null with fewer than two pairs. */
  interval: Interval | null;
  /** Null without a pair. */
  test: SignFlipTest | null;
  /** Number of paired scenarios in which `b` is better (`wins`), worse (`losses`) or equal (`ties`). */
  wins: number;
  losses: number;
  ties: number;
  pairs: PairedScore[];
  /** Keys of scenarios with a score in only one of the two. They are not compared. */
  onlyInA: string[];
  onlyInB: string[];
  /** Keys of pairs whose scenarios are not the same in the two: a key must mean one scenario. */
  changedScenarios: string[];
  /**
   * How `a` and `b` reward, or judge the compared success, differently, in words: a difference in score may come from
   * this alone.
   */
  rewardChanges: string[];
}

/**
 * Compares evaluation `b` with evaluation `a`, scenario by scenario. Pairing removes the differences in difficulty between
 * scenarios.
 * @throws OptionError if the two have different environments, or for an option that cannot be used.
 */
export function comparePair(a: ComparedScores, b: ComparedScores, options: CompareOptions = {}): Comparison {
  checkOptionNames('compare()', options, compareNames);
  checkArgument('a', a, 'evaluation');
  checkArgument('b', b, 'evaluation');
  const { measure = 'reward', confidence = 0.95, seed = 0 } = options;
  if (measure !== 'reward' && measure !== 'success')
    throw invalidOption(code, 'measure', measure, 'Pass "reward" or "success".');
  if (!(confidence >= 0.5 && confidence <= 0.999))
    throw invalidOption(code, 'confidence', confidence, 'Pass a number from 0.5 to 0.999.');
  if (a.environment !== undefined && b.environment !== undefined && a.environment !== b.environment) {
    throw new OptionError(
      code,
      `Evaluations of different environments cannot be compared: "${a.environment}" and "${b.environment}".`,
      { option: 'environment', value: b.environment },
    );
  }
  const inA = scoresOf(a, measure);
  const inB = scoresOf(b, measure);
  const pairs = [...inA].flatMap(([key, scoreA]) => {
    const scoreB = inB.get(key);
    return scoreB === undefined ? [] : { key, a: scoreA, b: scoreB, difference: scoreB - scoreA };
  });
  const differences = pairs.map(({ difference }) => difference);
  const scores = pairs.flatMap((pair) => [pair.a, pair.b]);
  const areShares =
    measure === 'success' ? scores.every((score) => score >= 0 && score <= 1) : scores.every(isZeroOrOne);
  const difference = estimate(differences);
  const intervalAt = (level: number) =>
    difference && normalInterval(difference, { confidence: level, areShares });
  return {
    measure,
    a: a.policy,
    b: b.policy,
    difference: difference && { ...difference, interval95: intervalAt(0.95) },
    confidence,
    interval: intervalAt(confidence),
    test: pairs.length > 0 ? signFlipTest(differences, seed) : null,
    wins: differences.filter((difference) => difference > 0).length,
    losses: differences.filter((difference) => difference < 0).length,
    ties: differences.filter((difference) => difference === 0).length,
    pairs,
    onlyInA: [...inA.keys()].filter((key) => !inB.has(key)),
    onlyInB: [...inB.keys()].filter((key) => !inA.has(key)),
    changedScenarios: changedScenarios(a, b),
    rewardChanges: [
      ...rewardChanges(a.rewards, b.rewards),
      ...(measure === 'success' ? successChanges(a.successBy, b.successBy) : []),
    ],
  };
}

function changedScenarios(a: ComparedScores, b: ComparedScores): string[] {
  const textOf = (scenario: unknown) => JSON.stringify(scenario) ?? null;
  const inA = new Map(a.perScenario.map(({ key, scenario }) => [key, textOf(scenario)]));
  return b.perScenario.flatMap(({ key, scenario }) => {
    const [was, is] = [inA.get(key), textOf(scenario)];
    return was && is && was !== is ? [key] : [];
  });
}

const successChanges = (was: string | undefined, is: string | undefined): string[] =>
  was === undefined || is === undefined || was === is ? [] : [`success is judged by ${is} and was by ${was}`];

/** A comparison of two evaluations as text for people. */
export function describePair(comparison: Comparison): string {
  const { measure, a, b, difference, test, wins, losses, ties, onlyInA, onlyInB } = comparison;
  const onlyWith = (name: string, keys: readonly string[]) => {
    return keys.length > 0 ? [`only with ${name}: ${keys.length} (${someOf(keys)})`] : [];
  };
  return [
    `${measure} of ${b} minus that of ${a}`,
    `difference ${describeEstimate(difference, comparison)}`,
    ...(test
      ? [`${test.name}, ${test.method} (${test.assignments} assignments): p = ${test.pValue.toPrecision(3)}`]
      : []),
    `scenarios  ${wins} better, ${losses} worse, ${ties} the same`,
    ...onlyWith(a, onlyInA),
    ...onlyWith(b, onlyInB),
    ...(comparison.changedScenarios.length > 0
      ? [
          `warning: other scenarios have the same keys in ${b}: ${comparison.changedScenarios.length} (${someOf(comparison.changedScenarios)})`,
        ]
      : []),
    ...comparison.rewardChanges.map(
      (change) => `warning: with ${b}, ${change}: the scores differ for that too`,
    ),
    '',
  ].join('\n');
}

const someOf = (keys: readonly string[]): string =>
  `${keys.slice(0, 5).join(', ')}${keys.length > 5 ? ', ...' : ''}`;

function scoresOf({ perScenario }: ComparedScores, measure: 'reward' | 'success'): Map<string, number> {
  return new Map(
    perScenario.flatMap((score) => {
      const value = score[measure];
      return value === null ? [] : [[score.key, value] as const];
    }),
  );
}

/** Result of the sign-flip test. */
export interface SignFlipTest {
  name: 'paired sign-flip permutation test';
  /** `exact`: all assignments of signs; `monte_carlo`: random assignments. */
  method: 'exact' | 'monte_carlo';
  assignments: number;
  /** Two-sided: probability of a mean difference at least as large if the two are equal on every scenario. */
  pValue: number;
}

/** Maximum number of differences for the exact test: 2^16 assignments take about a millisecond. */
const maxExactDifferences = 16;
const drawnAssignments = 10_000;

/**
 * Fisher's permutation test (1935) on paired differences: under the null hypothesis each difference has either sign with
 * equal probability. Differences of 0 are left out. With random assignments the observed one counts too, so that p is
 * never 0 (Phipson and Smyth, 2010).
 */
export function signFlipTest(differences: readonly number[], seed: number): SignFlipTest {
  const sizes = differences.map(Math.abs).filter((size) => size > 0);
  const total = sumOf(sizes);
  const observed = Math.abs(sumOf(differences));
  // Tolerates rounding: the same numbers summed in another order may differ.
  const threshold = observed - total * 1e-9;
  const base = { name: 'paired sign-flip permutation test' } as const;
  if (sizes.length <= maxExactDifferences) {
    const assignments = 2 ** sizes.length;
    const asLarge = countExact(sizes, threshold);
    return { ...base, method: 'exact', assignments, pValue: asLarge / assignments };
  }
  const random = randomSource(seed);
  let asLarge = 1;
  for (let drawn = 0; drawn < drawnAssignments; drawn++) {
    let sum = 0;
    for (const size of sizes) sum += random() < 0.5 ? size : -size;
    if (Math.abs(sum) >= threshold) asLarge++;
  }
  return {
    ...base,
    method: 'monte_carlo',
    assignments: drawnAssignments,
    pValue: asLarge / (drawnAssignments + 1),
  };
}

function countExact(sizes: readonly number[], threshold: number): number {
  const count = (at: number, sum: number): number => {
    const size = sizes[at];
    if (size === undefined) return Math.abs(sum) >= threshold ? 1 : 0;
    return count(at + 1, sum + size) + count(at + 1, sum - size);
  };
  return count(0, 0);
}
