import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { type Client, isRequestError } from '../client/index.ts';
import { parseModelName } from '../contract/index.ts';
import type { JsonValue } from '../environment/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { StepReport, VersionChange } from '../progress/index.ts';
import { RunError } from '../util/run-error.ts';
import { clientOf, resolveModel } from './model-source.ts';
import { RunDirectory } from './run-directory.ts';
import { defaultRunDirectory } from './run-files.ts';
import { originOf, versionChanges } from './run-origin.ts';
import { toConfig } from './run-record.ts';
import type { RunState } from './run-state.ts';
import { type TrainOptions, trainDefaults } from './train-options.ts';

export interface StartedRun {
  /** Pinned to the newest checkpoint in the run's state. */
  model: ModelHandle;
  state: RunState;
  /** Reports of the finished steps. */
  reports: StepReport[];
  isResumed: boolean;
  /** Step of the checkpoint that the run started from; 0 for an untrained model. */
  fromStep: number;
  /** Name of the base model; null if unknown. */
  baseModel: string | null;
  /** Versions that differ from those at the start of the run. */
  changedVersions: VersionChange[];
}

/** @throws OptionError if the folder of a new run is not empty; RunError if there is no run to resume. */
export async function openRunDirectory<Schema extends z.ZodType, Outcome>({
  environment,
  runDirectory = defaultRunDirectory(environment.name),
  resume = trainDefaults.resume,
}: TrainOptions<Schema, Outcome>): Promise<RunDirectory> {
  if (resume === true) return RunDirectory.resume(runDirectory);
  return resume === 'auto' ? RunDirectory.open(runDirectory) : RunDirectory.create(runDirectory);
}

/**
 * Opens the model and creates or reads the state, for a new or resumed run. Writes `config.json`.
 * @throws RunError if a resumed run has other options, or its model is deleted or has been trained by others.
 */
export async function startRun<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
  directory: RunDirectory,
  position: () => JsonValue,
): Promise<StartedRun> {
  const { config, signal } = options;
  const was = options.resume ? await directory.readConfig() : undefined;
  const client = clientOf(options);
  // Must come before the model is opened: opening a deleted model would create a new one with its name.
  if (was) await checkModelIsThere(was, { client, path: directory.path, signal });
  const model = await resolveModel(options, { client, signal, was });
  const origin = await originOf(options, model, signal);
  const { baseModel } = origin;
  const is = toConfig(options, model, origin);
  const changedVersions = versionChanges(was?.versions, is.versions);
  const isSchedule = typeof config === 'function';
  if (was) checkResume(was, is, { path: directory.path, isSchedule });
  const state = was ? await directory.readState() : undefined;
  if (!state) {
    // The run was killed before its first job, so its model must be unchanged.
    if (was && was.model !== model.name) throw trainedMeanwhile(String(was.model), model);
    await directory.writeConfig(is);
    const state = newState(model, position());
    const isResumed = was !== undefined;
    return { model, state, reports: [], isResumed, fromStep: model.step ?? 0, baseModel, changedVersions };
  }
  const warmStart = await directory.readWarmStart();
  const newest = state.policySteps.at(-1) ?? 0;
  const isTraining = (await directory.readJob(state.finishedSteps)) !== undefined;
  const isWarming = warmStart !== undefined && warmStart.outcome === undefined;
  // The run may have been killed after the warm start ended and before the state was written.
  const stood = state.finishedSteps === 0 ? (warmStart?.outcome?.step ?? newest) : newest;
  if (model.step !== stood && !isTraining && !isWarming) throw trainedMeanwhile(model.at(stood).name, model);
  await directory.writeConfig({ ...is, ...beginningOf(was ?? {}) });
  await directory.takeUpEvents();
  const reports = await directory.takeUpMetrics(state.finishedSteps);
  // The run may have been killed after the step was marked finished and before its journal was deleted.
  if (state.finishedSteps > 0) await directory.dropKeptGroups(state.finishedSteps - 1);
  const parts = state.parts.map((part) => (part.reason === 'running' ? { ...part, reason: 'killed' } : part));
  const taken = { ...state, parts: [...parts, newPart(state.finishedSteps)] };
  const fromStep = warmStart?.from ?? state.policySteps[0] ?? 0;
  return {
    model: model.at(newest),
    state: taken,
    reports,
    isResumed: true,
    fromStep,
    baseModel,
    changedVersions,
  };
}

/**
 * Fields of `config.json` that keep their first values in a resumed run, even if an earlier version did not write them.
 */
const beginningOf = ({ model, modelAsked, started, versions }: Record<string, unknown>) => ({
  ...{ model, modelAsked, started, versions },
});

const newState = (model: ModelHandle, position: JsonValue): RunState => ({
  version: 1,
  runId: randomUUID(),
  finishedSteps: 0,
  policySteps: [model.step ?? 0],
  checkpoints: [],
  position,
  draws: [],
  evaluations: [],
  parts: [newPart(0)],
});

const newPart = (finishedSteps: number) => ({
  started: new Date().toISOString(),
  fromStep: finishedSteps,
  toStep: finishedSteps,
  seconds: 0,
  reason: 'running',
});

function trainedMeanwhile(was: string, { name }: ModelHandle): RunError {
  return new RunError(
    'resume_refused',
    `The run's model stood at ${was}, and its newest checkpoint is ${name}: it has been trained by others since. ` +
      'Delete the checkpoints after that of the run, or begin another run.',
  );
}

/** Fields that may change on resume, because they do not affect the result of the run. */
const free = new Set([
  'started',
  'modelAsked',
  'baseModel',
  'versions',
  'scenarioSchema',
  'changed',
  'concurrency',
  'jobTimeoutMs',
  'keepCheckpoints',
  'budget',
]);

type Config = Record<string, unknown>;

/**
 * @param isSchedule Whether `config` is a function, whose values may depend on the number of steps.
 * @throws RunError that lists all options that have changed since the run started.
 */
export function checkResume(
  was: Config,
  is: Config,
  { path, isSchedule }: { path: string; isSchedule: boolean },
): void {
  const differences = Object.keys(is)
    .filter((name) => !free.has(name) && name !== 'steps' && name !== 'model')
    // With more steps, a schedule has other values from the first step on.
    .filter((name) => !(name === 'config' && isSchedule && was.steps !== is.steps))
    .map((name) => [name, shown(was[name]), shown(is[name])] as const)
    .filter(([, before, now]) => before !== now)
    .map(([name, before, now]) => `\`${name}\` was ${before} and is ${now}`);
  if (pathOf(was.model) !== pathOf(is.model))
    differences.unshift(`\`model\` was ${shown(was.model)} and is ${shown(is.model)}`);
  if (Number(is.steps) < Number(was.steps))
    differences.push(`\`steps\` was ${shown(was.steps)} and is ${shown(is.steps)}`);
  if (differences.length === 0) return;
  throw new RunError(
    'resume_refused',
    `The run in ${path} was asked for otherwise: ${differences.join('; ')}. Ask for the same (\`steps\` may grow), or ` +
      'begin another run.',
  );
}

/** @throws RunError if the service no longer has the model of the run. */
export async function checkModelIsThere(
  { model, modelId }: Config,
  { client, path, signal }: { client: Client; path: string; signal: AbortSignal | undefined },
): Promise<void> {
  if (typeof modelId !== 'string') return;
  try {
    await client.models.checkpoints.list(modelId, { limit: 1, signal });
  } catch (cause) {
    if (!isRequestError(cause, 'not_found')) throw cause;
    throw new RunError(
      'resume_refused',
      `The run in ${path} trains ${pathOf(model)} (${modelId}), which the service no longer has: it was deleted, or ` +
        'this is another service, one with another data folder, or a key of another entity. Go on with the service, ' +
        'data folder and key that the run began with; where the model was deleted, begin another run.',
      { cause },
    );
  }
}

const shown = (value: unknown) => JSON.stringify(value) ?? 'absent';

function pathOf(model: unknown): string {
  const parsed = parseModelName(String(model));
  return parsed ? `${parsed.entity}/${parsed.project}/${parsed.name}` : String(model);
}
