import { titleOfScenario } from '../environment/index.ts';
import { invalidOption, OptionError } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { sumOf } from '../util/sums.ts';
import { type ComparedScores, type CompareOptions, type Comparison, comparePair } from './compare-pair.ts';
import type { ComparisonRow, ComparisonTable, RowDifference, ScenarioRow } from './comparison-table.ts';
import { checkPrices, costOf, priceNames, type TokenPrices, type TokenUsage } from './cost.ts';
import { estimateReward, estimateShare } from './estimate.ts';
import { type EvaluationSource, evaluationOf } from './gate.ts';

/** One row to be: what is evaluated, by its name. */
export interface ComparedEvaluation {
  /** Name of the row, such as `before`, `prompt`, `trained`. */
  name: string;
  /** What `evaluate` returns, the path of a stored evaluation, or a function that evaluates when its turn comes. */
  evaluation: EvaluationSource | (() => Promise<EvaluationSource>);
  /** Default: those that the evaluation has; without any, the cost is unknown. */
  prices?: TokenPrices | undefined;
}

export interface CompareAllOptions extends Pick<CompareOptions, 'seed'> {
  /** The score to compare. Default: `success` where every evaluation has it, else `reward`. */
  measure?: CompareOptions['measure'] | undefined;
}

const code = 'invalid_evaluation_option';

const optionNames = { measure: true, seed: 'whole' } satisfies OptionNames<CompareAllOptions>;
const evaluationNames = {
  name: true,
  evaluation: true,
  prices: priceNames,
} satisfies OptionNames<ComparedEvaluation>;

/**
 * Compares evaluation `b` with evaluation `a`, scenario by scenario: two checkpoints, two models, or a model and an
 * external model. Pairing removes the differences in difficulty between scenarios.
 * @throws OptionError if the two have different environments, or for an option that cannot be used.
 */
export function compare(a: ComparedScores, b: ComparedScores, options?: CompareOptions): Comparison;
/**
 * Puts any number of evaluations of one environment into one table, each beside the first: success or reward with its
 * interval, difference with a paired test, cost, latency, and who succeeds in which scenario.
 * @throws OptionError for fewer than two evaluations, names that are not unique, evaluations of different environments,
 *   or an option that cannot be used. RunError for a stored evaluation that cannot be read.
 */
export function compare(
  evaluations: readonly ComparedEvaluation[],
  options?: CompareAllOptions,
): Promise<ComparisonTable>;
export function compare(
  ...args:
    | [a: ComparedScores, b: ComparedScores, options?: CompareOptions]
    | [evaluations: readonly ComparedEvaluation[], options?: CompareAllOptions]
): Comparison | Promise<ComparisonTable> {
  return isList(args) ? compareAll(...args) : comparePair(...args);
}

const isList = <Args extends readonly unknown[]>(
  args: Args,
): args is Extract<Args, [readonly ComparedEvaluation[], CompareAllOptions?]> => Array.isArray(args[0]);

async function compareAll(
  evaluations: readonly ComparedEvaluation[],
  options: CompareAllOptions = {},
): Promise<ComparisonTable> {
  checkOptionNames('compare()', options, optionNames);
  checkEvaluations(evaluations);
  const sides: Side[] = [];
  for (const { name, evaluation, prices } of evaluations) {
    const source = await (typeof evaluation === 'function' ? evaluation() : evaluation);
    const scores = await evaluationOf(`evaluation of "${name}"`, source);
    sides.push({ name, scores, prices: prices ?? scores.prices });
  }
  return tableOf(sides, options);
}

interface Side {
  name: string;
  scores: ComparedScores;
  prices: TokenPrices | undefined;
}

function checkEvaluations(evaluations: readonly ComparedEvaluation[]): void {
  if (!Array.isArray(evaluations) || evaluations.length < 2)
    throw invalidOption(code, 'evaluations', evaluations, 'Pass a list of at least two.');
  const names = new Set<string>();
  for (const one of evaluations) {
    checkOptionNames('an evaluation of compare()', one, evaluationNames);
    const { name, prices } = one;
    if (typeof name !== 'string' || name === '' || names.has(name))
      throw invalidOption(code, 'name', name, 'Give each evaluation a name of its own.');
    names.add(name);
    checkPrices(code, prices);
  }
}

function tableOf(sides: readonly Side[], { measure: asked, seed }: CompareAllOptions): ComparisonTable {
  const environments = [...new Set(sides.flatMap(({ scores }) => scores.environment ?? []))];
  if (environments.length > 1)
    throw new OptionError(
      code,
      `Evaluations of different environments cannot be compared: ${sides
        .map(({ name, scores }) => `"${name}" is of "${scores.environment ?? 'unknown'}"`)
        .join(', ')}.`,
      { option: 'evaluations' },
    );
  const isJudged = ({ scores }: Side) => scores.perScenario.some(({ success }) => success !== null);
  const measure = asked ?? (sides.every(isJudged) ? 'success' : 'reward');
  const [first] = sides;
  const comparisons = sides.map(({ name, scores }, at) =>
    first && at > 0
      ? comparePair({ ...first.scores, policy: first.name }, { ...scores, policy: name }, { measure, seed })
      : null,
  );
  const pValues = comparisons.map((comparison) => comparison?.test?.pValue ?? null);
  const adjusted = holm(pValues);
  return {
    environment: environments[0] ?? null,
    measure,
    rows: sides.map((side, at) => ({
      ...rowOf(side, measure),
      difference: differenceOf(comparisons[at] ?? null, adjusted[at] ?? null),
    })),
    scenarios: scenarioRows(sides, measure),
    warnings: [
      ...(measure === 'reward' && asked === undefined && sides.some(isJudged)
        ? [
            `success is not known for ${sides
              .filter((side) => !isJudged(side))
              .map(({ name }) => name)
              .join(', ')}, so rewards are compared`,
          ]
        : []),
      ...comparisons.flatMap((comparison) =>
        (comparison?.rewardChanges ?? []).map((change) => `with ${comparison?.b}, ${change}`),
      ),
      ...comparisons.flatMap((comparison) => (comparison ? aloneIn(comparison) : [])),
    ],
  };
}

/** The scenarios in which two rows cannot be compared. */
function aloneIn({ measure, a, b, onlyInA, onlyInB, changedScenarios: changed }: Comparison): string[] {
  const count = (keys: readonly string[]) => `${keys.length} ${keys.length === 1 ? 'scenario' : 'scenarios'}`;
  return [
    ...(changed.length > 0 ? [`${count(changed)} of ${b} are not what ${a} has under the same keys`] : []),
    ...(onlyInA.length > 0 ? [`${b} has no ${measure} for ${count(onlyInA)} of ${a}`] : []),
    ...(onlyInB.length > 0 ? [`${a} has no ${measure} for ${count(onlyInB)} of ${b}`] : []),
  ];
}

function rowOf(
  { name, scores: { policy, perScenario }, prices }: Side,
  measure: 'reward' | 'success',
): Omit<ComparisonRow, 'difference'> {
  const values = perScenario.flatMap((score) => score[measure] ?? []);
  const trials = sumOf(perScenario, ({ judged = 1, success }) => (success === null ? 0 : judged));
  const completed = sumOf(perScenario, (score) => score.completed ?? 0);
  const tokens = completed > 0 ? totalUsage(perScenario.map((score) => score.tokens ?? null)) : null;
  const tokensPer1000 = tokens && {
    promptTokens: (tokens.promptTokens / completed) * 1000,
    sampledTokens: (tokens.sampledTokens / completed) * 1000,
  };
  const times = perScenario.flatMap(({ milliseconds }) => milliseconds ?? []).sort((a, b) => a - b);
  return {
    name,
    policy,
    score: measure === 'success' ? estimateShare(values, { trials }) : estimateReward(values, values),
    scenarios: perScenario.length,
    tokensPer1000,
    costPer1000: tokensPer1000 && costOf(tokensPer1000, prices),
    latency:
      times.length === 0
        ? null
        : { medianMs: quantile(times, 0.5), p90Ms: quantile(times, 0.9), rollouts: times.length },
  };
}

/** Null if one of them is not known. */
function totalUsage(usages: readonly (TokenUsage | null)[]): TokenUsage | null {
  const sum: TokenUsage = { promptTokens: 0, sampledTokens: 0 };
  for (const usage of usages) {
    if (!usage) return null;
    sum.promptTokens += usage.promptTokens;
    sum.sampledTokens += usage.sampledTokens;
  }
  return sum;
}

/** By linear interpolation between the two nearest, as in NumPy and R (type 7 of Hyndman and Fan, 1996). */
function quantile(sorted: readonly number[], share: number): number {
  const at = (sorted.length - 1) * share;
  const [low = 0, high = low] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  return low + (high - low) * (at - Math.floor(at));
}

function differenceOf(comparison: Comparison | null, adjustedPValue: number | null): RowDifference | null {
  if (!comparison) return null;
  const { difference, test, pairs, ties, onlyInA, onlyInB } = comparison;
  const keysOf = (sign: number) =>
    pairs.filter((pair) => Math.sign(pair.difference) === sign).map(({ key }) => key);
  return {
    estimate: difference,
    pValue: test?.pValue ?? null,
    adjustedPValue,
    better: keysOf(1),
    worse: keysOf(-1),
    same: ties,
    onlyHere: onlyInB,
    onlyInFirst: onlyInA,
  };
}

function scenarioRows(sides: readonly Side[], measure: 'reward' | 'success'): ScenarioRow[] {
  const rows = new Map<string, ScenarioRow>();
  for (const [at, { scores }] of sides.entries())
    for (const score of scores.perScenario) {
      const { key, scenario, title } = score;
      const row = rows.get(key) ?? { key, title: key, scores: sides.map(() => null) };
      if (title !== undefined) row.title = title;
      else if (scenario !== undefined && row.title === key) row.title = titleOfScenario(scenario);
      row.scores[at] = score[measure];
      rows.set(key, row);
    }
  const titles = Map.groupBy(rows.values(), ({ title }) => title);
  return [...rows.values()]
    .filter(({ scores }) => scores.some((score) => score !== null))
    .map((row) =>
      (titles.get(row.title)?.length ?? 0) > 1 ? { ...row, title: `${row.title} (${row.key})` } : row,
    );
}

/**
 * P-values that keep the chance of any false difference at the level of a single test (Holm, "A simple sequentially
 * rejective multiple test procedure", Scandinavian Journal of Statistics, 1979): the smallest of m times m, the next
 * times m - 1, and so on, none below the one before it or above 1. Null stays null, and is not counted.
 */
export function holm(pValues: readonly (number | null)[]): (number | null)[] {
  const order = pValues.flatMap((p, at) => (p === null ? [] : [{ p, at }])).sort((a, b) => a.p - b.p);
  const adjusted: (number | null)[] = pValues.map(() => null);
  let least = 0;
  for (const [rank, { p, at }] of order.entries()) {
    least = Math.max(least, Math.min(1, p * (order.length - rank)));
    adjusted[at] = least;
  }
  return adjusted;
}
