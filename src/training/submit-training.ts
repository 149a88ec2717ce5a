import { randomUUID } from 'node:crypto';
import { isRequestError, mayHaveActed } from '../client/index.ts';
import type { LogRequest, RlConfig, StoredGroup } from '../contract/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import type { BodyForm, TrajectoryGroup } from '../trajectory/index.ts';
import { type OptionNames, requireOptions } from '../util/option-names.ts';
import { warn } from '../util/warning.ts';
import { invalidRunOption } from './errors.ts';
import { configNames } from './job-config.ts';
import { knowsKeys } from './lost-job.ts';
import { type RunDirectory, runFiles } from './run-directory.ts';

export interface StoreGroupOptions {
  model: ModelHandle;
  group: TrajectoryGroup;
  signal?: AbortSignal;
}

const storeNames = {
  model: 'handle',
  group: 'group',
  signal: 'signal',
} satisfies OptionNames<StoreGroupOptions>;

/**
 * Sends a finished group to the service, for `submitTraining` and `logTrajectories` of the same model. A repeat is the
 * same group. Its trajectories can no longer be changed afterwards. Only for a service that has this:
 * `client.storesGroups()`.
 * @throws TrajectoryError for a trajectory of an external model; RequestError for one that cannot be trained on.
 */
export async function storeGroup(options: StoreGroupOptions): Promise<StoredGroup> {
  requireOptions('storeGroup()', options, storeNames, ['model', 'group']);
  return sendGroup(options, 'compact');
}

/** `storeGroup` in either form. */
export function sendGroup({ model, group, signal }: StoreGroupOptions, form: BodyForm): Promise<StoredGroup> {
  seal(group);
  return model.client.models.storeGroup(requireModelId(model), group.toBody(form), { signal });
}

function seal({ trajectories }: TrajectoryGroup): void {
  for (const trajectory of trajectories) {
    trajectory.requireTrainable();
    trajectory.seal();
  }
}

/** Groups for a job or a log: whole, or stored by the service. */
export type GroupsToSend = readonly TrajectoryGroup[] | readonly StoredGroup[];

/** The field of a request that holds the groups. */
function fieldOf(groups: GroupsToSend): Pick<LogRequest, 'groups' | 'trajectory_groups'> {
  const ids = groups.flatMap((group) => ('id' in group ? [group.id] : []));
  // An empty list is a list of whole groups, which every service knows.
  if (ids.length === 0)
    return { trajectory_groups: groups.flatMap((group) => ('id' in group ? [] : [group.toBody()])) };
  if (ids.length === groups.length) return { groups: ids };
  throw invalidRunOption(
    'groups',
    groups.length,
    'Pass only whole groups, or only what `storeGroup` returned.',
  );
}

export interface SubmitTrainingOptions {
  model: ModelHandle;
  /** Finished groups, of which those without trajectories are left out, or what `storeGroup` returned for each. */
  groups: GroupsToSend;
  config?: RlConfig;
  /**
   * A repeat with the same key and body returns the first job. On a service without idempotency keys it creates
   * another; there, `mayHaveActed(error)` says whether a failed call may have created a job. Default: a new key.
   */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

const submitNames = {
  model: 'handle',
  groups: 'list',
  config: configNames,
  idempotencyKey: 'text',
  signal: 'signal',
} satisfies OptionNames<SubmitTrainingOptions>;

/**
 * Requests a reinforcement-learning job on finished groups; follow it with `followJob`. Their trajectories can no
 * longer be changed afterwards.
 * @throws TrajectoryError for a trajectory of an external model.
 */
export async function submitTraining(options: SubmitTrainingOptions): Promise<{ jobId: string }> {
  requireOptions('submitTraining()', options, submitNames, ['model', 'groups']);
  const { model, groups, config, idempotencyKey = randomUUID(), signal } = options;
  for (const group of groups) if (!('id' in group)) seal(group);
  const field = fieldOf(groups);
  const whole = field.trajectory_groups?.filter(({ trajectories }) => trajectories.length > 0);
  const { id } = await model.client.trainingJobs.create(
    {
      model_id: requireModelId(model),
      ...(whole ? { trajectory_groups: whole } : field),
      experimental_config: config,
    },
    { idempotencyKey, signal },
  );
  return { jobId: id };
}

export interface LogTrajectoriesOptions {
  model: ModelHandle;
  /** Scenario split, such as `train`, `val` or `test`. */
  split: string;
  /** Finished groups, or what `storeGroup` returned for each. */
  groups: GroupsToSend;
  /** A repeat with the same key and body is not stored again. Default: every call is stored. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

const logNames = {
  model: 'handle',
  split: 'text',
  groups: 'list',
  idempotencyKey: 'text',
  signal: 'signal',
} satisfies OptionNames<LogTrajectoriesOptions>;

/** Stores finished groups with the model on the service. */
export async function logTrajectories(options: LogTrajectoriesOptions): Promise<void> {
  requireOptions('logTrajectories()', options, logNames, ['model', 'split', 'groups']);
  const { model, split, groups, idempotencyKey, signal } = options;
  await model.client.models.log(
    requireModelId(model),
    { split, ...fieldOf(groups) },
    { idempotencyKey, signal },
  );
}

interface LogOnceOptions extends LogTrajectoriesOptions {
  directory: RunDirectory;
  /** Name of the groups' file in the run directory. */
  name: string;
}

/**
 * Logs groups of a run once, also across resumes. A service without idempotency keys would store a repeat again, so
 * groups that it has stored are not sent again. Groups that it may have stored are not sent again either, with a
 * warning.
 */
export async function logOnce({ directory, name, ...options }: LogOnceOptions): Promise<void> {
  if (knowsKeys(options.model.client)) return logTrajectories(options);
  const file = runFiles.logged(name);
  const before = await directory.read(file);
  if (before?.state === 'stored' || before?.state === 'unknown') return;
  const giveUp = (why: string) => {
    warnNotLogged(options, why);
    return directory.write(file, { state: 'unknown' });
  };
  if (before?.state === 'asked') return giveUp('The run ended before the service had answered.');
  await directory.write(file, { state: 'asked' });
  try {
    await logTrajectories(options);
  } catch (error) {
    if (mayHaveActed(error)) return giveUp(error.message);
    if (isRequestError(error)) await directory.write(file, { state: 'refused' });
    throw error;
  }
  await directory.write(file, { state: 'stored' });
}

function warnNotLogged({ model, split }: LogTrajectoriesOptions, why: string): void {
  warn(
    'martingale_log_unknown',
    `Trajectories of the split "${split}" may not have been logged with ${model.name}; they are not sent again. They ` +
      `are in the run directory, and the run continues. ${why}`,
  );
}
