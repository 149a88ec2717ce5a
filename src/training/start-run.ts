import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { type Client, isRequestError } from '../client/index.ts';
import { withoutStep } from '../contract/index.ts';
import type { JsonValue } from '../environment/index.ts';
import type { ModelHandle } from '../model/index.ts';
import { RunError } from '../util/run-error.ts';
import { type Learners, modelsToTrain, toLearners } from './learners.ts';
import { clientOf, resolveModel } from './model-source.ts';
import { RunDirectory, runFiles } from './run-directory.ts';
import { defaultRunDirectory } from './run-files.ts';
import { originOf, versionChanges } from './run-origin.ts';
import { toConfig } from './run-record.ts';
import type { RunState } from './run-state.ts';
import { requireTeacher } from './teacher.ts';
import { type TrainOptions, trainDefaults } from './train-options.ts';

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
 * Opens the models and creates or reads the state, for a new or resumed run. Writes `config.json`. Returns the learners
 * at the newest checkpoints in the state, the reports of the finished steps, and the step of the checkpoint that the
 * policy started from (0 for an untrained model).
 * @throws RunError if a resumed run has other options, or one of its models is deleted or has been trained by others.
 */
export async function startRun<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
  directory: RunDirectory,
  position: JsonValue,
) {
  const { config, signal } = options;
  const saved = options.resume ? await directory.read(runFiles.config) : undefined;
  const client = clientOf(options);
  // Must come before the model is opened: opening a deleted model would create a new one with its name.
  if (saved) await checkModelExists(saved, { client, path: directory.path, signal });
  const model = await resolveModel(options, { client, signal, saved });
  await requireTeacher(options.teacher, model.client, signal);
  const origin = await originOf(options, model, signal);
  const current = toConfig(options, model, origin);
  const changedVersions = versionChanges(saved?.versions, current.versions);
  const isSchedule = typeof config === 'function';
  if (saved) checkResume(saved, current, { path: directory.path, isSchedule });
  const { baseModel } = origin;
  const models = await modelsToTrain(model, options.seats, signal);
  const isResumed = saved !== undefined;
  const state = saved ? await directory.read(runFiles.state) : undefined;
  if (!state) {
    // The run was killed before its first job, so its model must be unchanged.
    if (saved && saved.model !== model.name) throw trainedMeanwhile(String(saved.model), model);
    await directory.write(runFiles.config, current);
    const learners = toLearners(models, []);
    const state = newState(learners, position, await doStoreGroups(models, signal));
    return { state, learners, reports: [], isResumed, fromStep: model.step ?? 0, baseModel, changedVersions };
  }
  if (state.storesGroups && !(await doStoreGroups(models, signal)))
    throw new RunError(
      'resume_refused',
      `The run in ${directory.path} sends each group to the service when it ends, in a form that this service does not know. Resume with the service of the run, in the same or a later version.`,
    );
  const learners = toLearners(models, state.learners);
  state.learners = statesOf(learners);
  const warmStart = await directory.read(runFiles.warmStart);
  for (const learner of learners) {
    // The run may have been killed after a job ended and before the state was written.
    const job = await directory.read(runFiles.job(learner.stepName(state.finishedSteps)));
    const begun = job ?? (learner.isPolicy && state.finishedSteps === 0 ? warmStart : undefined);
    const expected = begun ? begun.outcome?.step : learner.model.step;
    // A job without an outcome may have made a checkpoint.
    if (expected !== undefined && learner.opened.step !== expected)
      throw trainedMeanwhile(learner.model.at(expected).name, learner.opened);
  }
  // These keep their first values, even if an earlier version did not write them.
  const { model: name, modelAsked, started, versions } = saved ?? {};
  await directory.write(runFiles.config, { ...current, model: name, modelAsked, started, versions });
  await directory.repairEvents();
  const reports = await directory.readMetrics(state.finishedSteps);
  // The run may have been killed after the step was marked finished and before its journal was deleted.
  if (state.finishedSteps > 0) await directory.deleteJournal(state.finishedSteps - 1);
  const fromStep = warmStart?.from ?? learners[0].state.policySteps[0] ?? 0;
  return { state, learners, reports, isResumed, fromStep, baseModel, changedVersions };
}

/** Whether the services of all models that train store single groups. */
async function doStoreGroups(
  models: readonly ModelHandle[],
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const clients = new Set(models.map(({ client }) => client));
  const answers = await Promise.all([...clients].map((client) => client.storesGroups({ signal })));
  return answers.every(Boolean);
}

const newState = (learners: Learners, position: JsonValue, storesGroups: boolean): RunState => ({
  version: 2,
  runId: randomUUID(),
  finishedSteps: 0,
  learners: statesOf(learners),
  position,
  draws: [],
  evaluations: [],
  storesGroups,
  groupForm: 'compact',
  seconds: 0,
});

const statesOf = ([policy, ...others]: Learners): RunState['learners'] => [
  policy.state,
  ...others.map(({ state }) => state),
];

function trainedMeanwhile(expected: string, { name }: ModelHandle): RunError {
  return new RunError(
    'resume_refused',
    `The run was at ${expected}, but its newest checkpoint is ${name}: something else has trained it since. Delete the ` +
      'checkpoints that came after the run, or start another run.',
  );
}

/** Fields that may change on resume, because they do not affect the result of the run. */
const changeableOnResume = new Set([
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
function checkResume(
  saved: Config,
  current: Config,
  { path, isSchedule }: { path: string; isSchedule: boolean },
): void {
  const isSame = (name: string) => {
    if (name === 'model') return withoutStep(String(saved.model)) === withoutStep(String(current.model));
    if (name === 'steps') return !(Number(current.steps) < Number(saved.steps));
    // With more steps, a schedule has other values from the first step on.
    if (name === 'config' && isSchedule && saved.steps !== current.steps) return true;
    return changeableOnResume.has(name) || shown(saved[name]) === shown(current[name]);
  };
  const differences = Object.keys(current)
    .filter((name) => !isSame(name))
    .map((name) => `\`${name}\` was ${shown(saved[name])} and is ${shown(current[name])}`);
  if (differences.length === 0) return;
  throw new RunError(
    'resume_refused',
    `The run in ${path} was started with other options: ${differences.join('; ')}. Use the same options (\`steps\` ` +
      'may grow), or start another run.',
  );
}

/** @throws RunError if the service no longer has the model of the run. */
async function checkModelExists(
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
      `The run in ${path} trains ${withoutStep(String(model))} (${modelId}), which the service no longer has. The model ` +
        'was deleted, or this is another service, another data folder, or a key of another entity. Resume with the ' +
        'service, data folder and key of the run; if the model was deleted, start another run.',
      { cause },
    );
  }
}

const shown = (value: unknown) => JSON.stringify(value) ?? 'absent';
