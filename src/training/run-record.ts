import type { z } from 'zod';
import type { Evaluation } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import { modelAskedOf } from './model-source.ts';
import { configOf } from './option-names.ts';
import { changedOptions, type RunOrigin, type RunVersions, scenarioSchemaOf } from './run-origin.ts';
import { trainDefaults } from './train-defaults.ts';
import type { TrainOptions, TrainResult, WarmStart } from './train-options.ts';

/** What a run was asked for, as `config.json` has it. */
export function toConfig<Schema extends z.ZodType, Outcome>(
  settings: TrainOptions<Schema, Outcome>,
  model: ModelHandle,
  { baseModel, versions }: RunOrigin,
): Record<string, unknown> & { versions: RunVersions } {
  const { environment, scenarios, steps, groupsPerStep, rolloutsPerGroup, config, validation } = settings;
  const asked = {
    environment: environment.name,
    model: model.name,
    modelId: model.id,
    modelAsked: modelAskedOf(settings),
    scenarios: 'length' in scenarios ? scenarios.length : scenarios.size,
    steps,
    groupsPerStep,
    rolloutsPerGroup,
    maxStaleness: settings.maxStaleness ?? trainDefaults.maxStaleness,
    config:
      typeof config === 'function'
        ? Array.from({ length: steps }, (_, step) => configOf(settings, step))
        : (config ?? trainDefaults.config),
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
    validation: validation && { ...validation, scenarios: validation.scenarios.length },
    started: new Date().toISOString(),
  };
  const scenarioSchema = scenarioSchemaOf(environment.scenario);
  return { ...asked, baseModel, versions, scenarioSchema, changed: changedOptions(settings, asked) };
}

function toWarmStart(warmStart: WarmStart | undefined) {
  if (!warmStart) return undefined;
  const { examples, batchSize = 'auto', learningRate = null, assistantTurns = 'all' } = warmStart;
  const count = Array.isArray(examples) ? examples.length : null;
  return { examples: count, batchSize, learningRate, assistantTurns };
}

/** What a run reached, as `summary.json` has it. */
export function toSummary(
  result: Pick<TrainResult, 'reports' | 'counts' | 'usage' | 'validation'>,
  model: ModelHandle | undefined,
  seconds: number,
): object {
  const { before, after } = result.validation;
  return {
    model: model?.name ?? null,
    steps: result.reports.length,
    counts: result.counts,
    usage: result.usage,
    validation: { before: toScores(before), after: toScores(after) },
    seconds,
  };
}

const toScores = (evaluation: Evaluation | null) =>
  evaluation && { policy: evaluation.policy, reward: evaluation.reward, success: evaluation.success };
