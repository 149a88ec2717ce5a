import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { type Client, NotFoundError } from '../client/index.ts';
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
  /** Pinned to the newest checkpoint that the run knows of. */
  model: ModelHandle;
  state: RunState;
  /** Of the steps that are finished. */
  reports: StepReport[];
  isResumed: boolean;
  /** Step of the checkpoint that the run began with; 0 where its model had not been trained. */
  fromStep: number;
  /** Name of the base model; null where the service does not say. */
  baseModel: string | null;
  /** What the run was begun with, and goes on with another of. */
  changedVersions: VersionChange[];
}

/** @throws OptionError where a new run's folder is not empty, RunError where there is no run to go on with. */
export async function openRunDirectory<Schema extends z.ZodType, Outcome>({
  environment,
  runDirectory = defaultRunDirectory(environment.name),
  resume = trainDefaults.resume,
}: TrainOptions<Schema, Outcome>): Promise<RunDirectory> {
  if (resume === true) return RunDirectory.resume(runDirectory);
  return resume === 'auto' ? RunDirectory.open(runDirectory) : RunDirectory.create(runDirectory);
}

/**
 * The model and the state that a run begins with, or goes on with, both noted on disk.
 * @throws RunError where the run was asked for otherwise, or its model is gone or has been trained by others since.
 */
export async function startRun<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
  directory: RunDirectory,
  position: () => JsonValue,
): Promise<StartedRun> {
  const { config, signal } = options;
  const was = options.resume ? await directory.readConfig() : undefined;
  const client = clientOf(options);
  // Before the model is opened: where it is gone, that would make another of its name.
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
    // Killed before its first job: it has not trained, so its model has to be as it was.
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
  // Killed between the end of the warm start and the note of its checkpoint.
  const stood = state.finishedSteps === 0 ? (warmStart?.outcome?.step ?? newest) : newest;
  if (model.step !== stood && !isTraining && !isWarming) throw trainedMeanwhile(model.at(stood).name, model);
  await directory.writeConfig({ ...is, ...beginningOf(was ?? {}) });
  await directory.takeUpEvents();
  const reports = await directory.takeUpMetrics(state.finishedSteps);
  // Killed between the note that the step is finished and the end of its journal.
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

/** What `config.json` keeps of the beginning of a run that goes on, with nothing added to that of an earlier version. */
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

/** Options that may be others when a run is resumed: they change how it gets on, not what comes of it. */
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
 * @param isSchedule Whether `config` is worked out step by step, from the number of steps too.
 * @throws RunError that names each option that is not what the run began with.
 */
export function checkResume(
  was: Config,
  is: Config,
  { path, isSchedule }: { path: string; isSchedule: boolean },
): void {
  const differences = Object.keys(is)
    .filter((name) => !free.has(name) && name !== 'steps' && name !== 'model')
    // A schedule over more steps is another one from its beginning on.
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

/** @throws RunError where the service no longer has the model that the run trains. */
export async function checkModelIsThere(
  { model, modelId }: Config,
  { client, path, signal }: { client: Client; path: string; signal: AbortSignal | undefined },
): Promise<void> {
  if (typeof modelId !== 'string') return;
  try {
    await client.models.checkpoints.list(modelId, { limit: 1, signal });
  } catch (cause) {
    if (!(cause instanceof NotFoundError)) throw cause;
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
