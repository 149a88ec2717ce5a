import { bestOf, frontOf, type OptimizationRecord, readOptimization } from '../optimization/index.ts';
import { isObject } from '../util/json.ts';
import { meanOf, meanOrNull } from '../util/sums.ts';
import type { OptimizationDetail, RunRow } from './api.ts';

type Config = Readonly<Record<string, unknown>>;

/** The candidates of an optimisation; null for a run that is none, and before its first candidate. */
export async function optimizationOf(folder: string, config: Config): Promise<OptimizationDetail | null> {
  const records = await readOptimization(folder);
  return records && toDetail(records, config);
}

function toDetail(records: readonly OptimizationRecord[], config: Config): OptimizationDetail | null {
  const iterations = records.filter((record) => record.type === 'iteration');
  const made = iterations.flatMap(({ candidate, iteration, text }) =>
    candidate ? [{ candidate, iteration, text }] : [],
  );
  const last = iterations.at(-1);
  if (!last || made.length === 0) return null;
  const rewards = made.map(({ candidate }) => candidate.rewards);
  const front = frontOf(rewards);
  return {
    scenarios: titlesIn(config.validation),
    candidates: made.map(
      ({ candidate: { number, parent, texts, rewards: own, success }, iteration, text }) => ({
        number,
        parent,
        iteration,
        which: `validation-${iteration}`,
        text,
        texts,
        reward: meanOf(own),
        success: meanOfKnown(success),
        rewards: own,
        wins: front.flatMap((winners, at) => (winners.includes(number) ? [at] : [])),
      }),
    ),
    best: bestOf(rewards),
    iterations: iterations
      .slice(1)
      .map(({ iteration, parent, text, outcome, because, before, after, candidate }) => ({
        iteration,
        parent,
        text,
        outcome,
        because,
        before: meanOfKnown(before),
        after: meanOfKnown(after),
        candidate: candidate?.number ?? null,
      })),
    spent: last.spent,
  };
}

const meanOfKnown = (values: readonly (number | null)[]): number | null =>
  meanOrNull(values.filter((value) => value !== null));

/** The titles of the validation scenarios, as `config.json` has them. */
const titlesIn = (validation: unknown): string[] =>
  Array.isArray(validation)
    ? validation.map((one: unknown) => (isObject(one) && typeof one.title === 'string' ? one.title : ''))
    : [];

/** What the list of runs shows of an optimisation. */
export function rowOf(
  { candidates, best, iterations, spent }: OptimizationDetail,
  { iterations: total }: Config,
): Partial<RunRow> {
  const { model, reflect, cost, seconds } = spent;
  return {
    step: iterations.length,
    steps: typeof total === 'number' ? total : iterations.length,
    reward: candidates[best]?.reward ?? null,
    success: candidates[best]?.success ?? null,
    rewards: candidates.map(({ reward }) => reward),
    cost,
    tokens: model.promptTokens + model.sampledTokens + reflect.promptTokens + reflect.sampledTokens,
    seconds,
  };
}
