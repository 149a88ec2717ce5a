import type { z } from 'zod';
import type { Evaluation } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { TrainResult, TrainSettings } from './train-options.ts';

/** What a run was asked for, as `config.json` has it. */
export function toConfig<Schema extends z.ZodType, Outcome>(
  settings: TrainSettings<Schema, Outcome>,
  model: ModelHandle,
): object {
  const { environment, scenarios, steps, groupsPerStep, rolloutsPerGroup, config, validation } = settings;
  return {
    environment: environment.name,
    model: model.name,
    modelId: model.id,
    scenarios: scenarios.length,
    steps,
    groupsPerStep,
    rolloutsPerGroup,
    config:
      typeof config === 'function'
        ? Array.from({ length: steps }, (_, step) => config({ step, steps }))
        : (config ?? {}),
    seed: settings.seed ?? 0,
    concurrency: settings.concurrency ?? null,
    rolloutTimeoutMs: settings.rolloutTimeoutMs ?? null,
    jobTimeoutMs: settings.jobTimeoutMs ?? null,
    onUnexpectedCall: settings.onUnexpectedCall ?? 'error',
    keepCheckpoints: settings.keepCheckpoints ?? 2,
    validation: validation && { ...validation, scenarios: validation.scenarios.length },
    started: new Date().toISOString(),
  };
}

/** What a run reached, as `summary.json` has it. */
export function toSummary(
  result: Pick<TrainResult, 'reports' | 'books' | 'validation'>,
  model: ModelHandle | undefined,
  seconds: number,
): object {
  const { before, after } = result.validation;
  return {
    model: model?.name ?? null,
    steps: result.reports.length,
    books: result.books,
    validation: { before: toScores(before), after: toScores(after) },
    seconds,
  };
}

const toScores = (evaluation: Evaluation | null) =>
  evaluation && { policy: evaluation.policy, reward: evaluation.reward, success: evaluation.success };
