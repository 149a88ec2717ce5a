import type { z } from 'zod';
import { withoutStep } from '../contract/index.ts';
import { givenTexts } from '../environment/index.ts';
import { costOf, type Evaluation, type TokenPrices } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { RunEndReason, RunValidation, StepReport } from '../progress/index.ts';
import { isTrainedSeat, namesOfSeats, type RolloutCounts } from '../rollout/index.ts';
import { sumOf } from '../util/sums.ts';
import { sumUsage } from './budget.ts';
import { rankCheckpoints } from './checkpoints.ts';
import { configOf } from './job-config.ts';
import type { Learners } from './learners.ts';
import { requestedModelOf } from './model-source.ts';
import { changedOptions, type RunOrigin, type RunVersions, scenarioSchemaOf } from './run-origin.ts';
import type { RunState } from './run-state.ts';
import { namedTeacher } from './teacher.ts';
import {
  type TrainOptions,
  type TrainResult,
  type TrainSettings,
  trainDefaults,
  type WarmStart,
} from './train-options.ts';

/** The options of a run, for `config.json`. */
export function toConfig<Schema extends z.ZodType, Outcome>(
  settings: TrainOptions<Schema, Outcome>,
  model: ModelHandle,
  { baseModel, versions }: RunOrigin,
): Record<string, unknown> & { versions: RunVersions } {
  const { environment, scenarios, steps, groupsPerStep, rolloutsPerGroup, config, validation } = settings;
  const options = {
    environment: environment.name,
    texts: givenTexts(environment),
    rewards: environment.definition.rewards,
    model: model.name,
    modelId: model.id,
    modelAsked: requestedModelOf(settings),
    scenarios: 'length' in scenarios ? scenarios.length : scenarios.size,
    steps,
    groupsPerStep,
    rolloutsPerGroup,
    maxStaleness: settings.maxStaleness ?? trainDefaults.maxStaleness,
    config:
      typeof config === 'function'
        ? Array.from({ length: steps }, (_, step) => configOf(settings, step))
        : (config ?? trainDefaults.config),
    teacher: namedTeacher(settings.teacher),
    warmStart: toWarmStart(settings.warmStart),
    seed: settings.seed ?? trainDefaults.seed,
    concurrency: settings.concurrency ?? null,
    groupStrategy: settings.groupStrategy ?? null,
    rolloutTimeoutMs: settings.rolloutTimeoutMs ?? null,
    rewardTimeoutMs: settings.rewardTimeoutMs ?? null,
    groupTimeoutMs: settings.groupTimeoutMs ?? null,
    jobTimeoutMs: settings.jobTimeoutMs ?? null,
    onUnexpectedCall: settings.onUnexpectedCall ?? trainDefaults.onUnexpectedCall,
    keepCheckpoints: settings.keepCheckpoints ?? trainDefaults.keepCheckpoints,
    budget: settings.budget ?? null,
    prices: settings.prices ?? null,
    seats: settings.seats && namesOfSeats(settings.seats),
    validation: validation && {
      ...validation,
      scenarios: validation.scenarios.length,
      seats: validation.seats && namesOfSeats(validation.seats),
    },
    started: new Date().toISOString(),
  };
  const scenarioSchema = scenarioSchemaOf(environment.scenario);
  return { ...options, baseModel, versions, scenarioSchema, changed: changedOptions(settings, options) };
}

function toWarmStart(warmStart: WarmStart | undefined) {
  if (!warmStart) return undefined;
  const { examples, batchSize = 'auto', learningRate = null, assistantTurns = 'all' } = warmStart;
  const count = Array.isArray(examples) ? examples.length : null;
  return { examples: count, batchSize, learningRate, assistantTurns };
}

/** The results of a run, for `summary.json`. */
export function toSummary(
  { reports, counts, usage, validation, seconds }: RunResults,
  model: ModelHandle | undefined,
): object {
  const scores = { before: toScores(validation.before), after: toScores(validation.after) };
  return {
    model: model?.name ?? null,
    steps: reports.length,
    counts,
    rewrittenHistories: rewrittenHistoriesOf(reports),
    askedForms: askedFormsOf(reports),
    usage,
    validation: scores,
    seconds,
  };
}

export type RunResults = Pick<TrainResult, 'reports' | 'counts' | 'usage' | 'validation' | 'seconds'>;

const toScores = (evaluation: Evaluation | null) =>
  evaluation && { policy: evaluation.policy, reward: evaluation.reward, success: evaluation.success };

/** Why a run ends. `because` is the text of `stopWhen`, of the used budget or of scenarios that ended. */
export interface RunEnd {
  reason: RunEndReason;
  because: string | null;
}

/** Total counts of all finished steps. */
export function countsOf(reports: readonly StepReport[]): RolloutCounts {
  const counts: RolloutCounts = { dispatched: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const report of reports) addCounts(counts, report);
  return counts;
}

export function addCounts(
  total: RolloutCounts,
  { dispatched, completed, failed, cancelled }: RolloutCounts,
): void {
  total.dispatched += dispatched;
  total.completed += completed;
  total.failed += failed;
  total.cancelled += cancelled;
}

/** Histories of all finished steps that began because the chat template rewrote a conversation. */
export const rewrittenHistoriesOf = (reports: readonly StepReport[]): number =>
  sumOf(reports, ({ rewrittenHistories }) => rewrittenHistories);

/** The forms that calls of all finished steps asked for. */
export const askedFormsOf = (reports: readonly StepReport[]): string[] => [
  ...new Set(reports.flatMap(({ askedForms }) => askedForms)),
];

/** Tokens of all finished steps and validations, and their cost. */
export function usageOfRun(
  { reports, evaluations }: { reports: readonly StepReport[]; evaluations: readonly RunValidation[] },
  prices: TokenPrices | undefined,
): TrainResult['usage'] {
  const usage = sumUsage([...reports, ...evaluations].map((part) => part.usage));
  return { ...usage, cost: costOf(usage, prices) };
}

/** The final model of a run, its best checkpoint, and its validations. */
export function resultOf(
  { learners, state }: { readonly learners: Learners; readonly state: RunState },
  { keepCheckpoints: keep, seats = {} }: Pick<TrainSettings<never, unknown>, 'keepCheckpoints' | 'seats'>,
): Pick<TrainResult, 'model' | 'finalStep' | 'learners' | 'best' | 'evaluations'> {
  const { evaluations } = state;
  const [policy, ...others] = learners;
  const { model } = policy;
  const { checkpoints, policySteps } = policy.state;
  const exists = (step: number) => step === policySteps[0] || checkpoints.includes(step);
  const metric = typeof keep === 'object' ? keep.metric : undefined;
  const best = rankCheckpoints(evaluations, metric).find(({ step }) => exists(step));
  return {
    model,
    finalStep: model.step ?? 0,
    learners: Object.fromEntries(
      Object.entries(seats).flatMap(([seat, player]) => {
        if (!isTrainedSeat(player)) return [];
        const name = withoutStep(player.model.name);
        return others
          .filter((learner) => learner.state.name === name)
          .map(({ model }) => [seat, model] as const);
      }),
    ),
    best: best ? { model: model.at(best.step), ...best } : null,
    evaluations,
  };
}
