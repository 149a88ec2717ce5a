import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { EvaluationOptionError } from './errors.ts';
import { type Estimate, estimate } from './estimate.ts';
import type { Evaluation } from './evaluate.ts';
import { type SignFlipTest, signFlipTest } from './sign-flip.ts';
import { describeEstimate } from './table.ts';

export interface CompareOptions {
  /** What is compared. Default `reward`. */
  measure?: 'reward' | 'success';
  /** Of the drawn assignments, where there are too many to go through all. Default 0. */
  seed?: number;
}

const compareNames = {
  measure: true,
  seed: true,
} satisfies OptionNames<CompareOptions>;

export interface PairedScore {
  key: string;
  a: number;
  b: number;
  /** `b` - `a`. */
  difference: number;
}

export interface Comparison {
  measure: 'reward' | 'success';
  /** Names of what was evaluated. */
  a: string;
  b: string;
  /** Of the paired scenarios: mean of `b` - `a`, with a normal interval; null where there is no pair. */
  difference: Estimate | null;
  /** Null where there is no pair. */
  test: SignFlipTest | null;
  /** Scenarios in which `b` is better, in which `a` is, and in which they are the same. */
  wins: number;
  losses: number;
  ties: number;
  pairs: PairedScore[];
  /** Keys of scenarios that have a score in one only, and are left out. */
  onlyInA: string[];
  onlyInB: string[];
}

/**
 * What changes from evaluation `a` to evaluation `b`, scenario by scenario: two checkpoints, two models, or a model
 * and an external model. Pairing takes out how hard each scenario is.
 * @throws EvaluationOptionError where the two have different environments.
 */
export function compare(a: Evaluation, b: Evaluation, options: CompareOptions = {}): Comparison {
  checkOptionNames('compare()', options, compareNames);
  const { measure = 'reward', seed = 0 } = options;
  if (a.environment !== b.environment) {
    throw new EvaluationOptionError(
      `Evaluations of different environments cannot be compared: "${a.environment}" and "${b.environment}".`,
    );
  }
  const inA = scoresOf(a, measure);
  const inB = scoresOf(b, measure);
  const pairs = [...inA].flatMap(([key, scoreA]) => {
    const scoreB = inB.get(key);
    return scoreB === undefined ? [] : { key, a: scoreA, b: scoreB, difference: scoreB - scoreA };
  });
  const differences = pairs.map(({ difference }) => difference);
  return {
    measure,
    a: a.policy,
    b: b.policy,
    difference: estimate(differences),
    test: pairs.length > 0 ? signFlipTest(differences, seed) : null,
    wins: differences.filter((difference) => difference > 0).length,
    losses: differences.filter((difference) => difference < 0).length,
    ties: differences.filter((difference) => difference === 0).length,
    pairs,
    onlyInA: [...inA.keys()].filter((key) => !inB.has(key)),
    onlyInB: [...inB.keys()].filter((key) => !inA.has(key)),
  };
}

/** A comparison for people. */
export function describeComparison(comparison: Comparison): string {
  const { measure, a, b, difference, test, wins, losses, ties, onlyInA, onlyInB } = comparison;
  const alone = (keys: readonly string[], name: string) =>
    keys.length > 0
      ? [
          `only with ${name}: ${keys.length} (${keys.slice(0, 5).join(', ')}${keys.length > 5 ? ', ...' : ''})`,
        ]
      : [];
  return [
    `${measure} of ${b} minus that of ${a}`,
    `difference ${describeEstimate(difference)}`,
    ...(test
      ? [`${test.name}, ${test.method} (${test.assignments} assignments): p = ${test.pValue.toPrecision(3)}`]
      : []),
    `scenarios  ${wins} better, ${losses} worse, ${ties} the same`,
    ...alone(onlyInA, a),
    ...alone(onlyInB, b),
    '',
  ].join('\n');
}

function scoresOf({ perScenario }: Evaluation, measure: 'reward' | 'success'): Map<string, number> {
  return new Map(
    perScenario.flatMap((score) => {
      const value = score[measure];
      return value === null ? [] : [[score.key, value] as const];
    }),
  );
}
