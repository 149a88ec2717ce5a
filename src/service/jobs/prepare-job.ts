import type { BaseModel, Engine, Weights } from '../../engines/engine.ts';
import { hasCode } from '../../util/error.ts';
import { ServiceError } from '../errors.ts';
import type { Constraints } from '../inference/constraints.ts';
import type { BaseModelTools } from '../inference/resolve-model.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, ModelRecord, Store } from '../store/store.ts';
import { type RecentPayloads, readPacked } from './packed-trajectories.ts';
import { type KlReference, prepareRlJob, readStored, tokenizePacked } from './rl-job.ts';
import { prepareSftJob, type ResolvedSftConfig, resolvedSftConfigSchema } from './sft-job.ts';
import { teacherWeights } from './teacher.ts';
import type { PreparedJob } from './train-job.ts';
import type { JobTokens, RecentTokens } from './trained-tokens.ts';

interface PrepareDependencies {
  engine: Engine;
  store: Store;
  files: DataFiles;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
  recentPayloads: RecentPayloads;
  recentTokens: RecentTokens;
}

/** Returns the function that prepares a job's training from its record and its payload. */
export function jobPreparation({
  engine,
  store,
  files,
  constraints,
  tools,
  recentPayloads,
  recentTokens,
}: PrepareDependencies) {
  return async (job: JobRecord, model: ModelRecord, signal: AbortSignal): Promise<PreparedJob> => {
    const base = baseModelOf(engine, model.baseModel);
    const dependencies = { engine, constraints, tools: tools(base.id), base };
    if (job.kind === 'sft') {
      const config = resolvedSftConfigSchema.parse(job.resolvedConfig);
      checkTargetStep(config, model.lastStep + 1);
      return prepareSftJob(files.uploadLines(job.uploadSha256 ?? ''), config, dependencies, signal);
    }
    const reference = (config: KlReference) =>
      config.kl_penalty_reference_model === null
        ? findKlReference({ store, files }, model, config)
        : teacherWeights({ store, files, engine }, job, config.kl_penalty_reference_model);
    const onTokens = (tokens: JobTokens) => recentTokens.keep(job.id, tokens);
    const groups = job.groupIds
      ? readStored(columnsOf({ store, files }, job, job.groupIds), dependencies)
      : tokenizePacked(recentPayloads.take(job.id) ?? readPacked(payloadOf(files, job.id)), dependencies);
    return prepareRlJob(groups, job.resolvedConfig, { base, reference, onTokens }, signal);
  };
}

/** What each stored group of a job trains on. */
async function* columnsOf(
  { store, files }: { store: Store; files: DataFiles },
  { modelId }: JobRecord,
  ids: readonly string[],
): AsyncGenerator<Buffer> {
  const records = await store.groupsOf(modelId, ids);
  for (const id of ids) {
    const group = records.get(id);
    const columns = group && (await files.groupColumns(group).catch(nullIfMissing));
    if (!columns) throw payloadMissing(`models/${modelId}/groups/${id}`);
    yield columns;
  }
}

function nullIfMissing(cause: unknown): null {
  if (hasCode(cause, 'ENOENT')) return null;
  throw cause;
}

const payloadMissing = (path: string, cause?: unknown) =>
  new ServiceError(
    422,
    'payload_missing',
    `The trajectories of this job are no longer in the data folder (${path}). Send the job again.`,
    { cause },
  );

async function* payloadOf(files: DataFiles, jobId: string): AsyncGenerator<Buffer> {
  try {
    yield* files.readPayload(jobId);
  } catch (cause) {
    if (!hasCode(cause, 'ENOENT')) throw cause;
    throw payloadMissing(`jobs/${jobId}.jsonl.gz`, cause);
  }
}

function checkTargetStep(
  { metric_logging: { target_training_step: target } }: ResolvedSftConfig,
  step: number,
) {
  if (target === null || target === step) return;
  throw new ServiceError(
    422,
    'wrong_target_step',
    `metric_logging.target_training_step is ${target}, but the job makes the checkpoint of step ${step}, because ${step < target ? 'fewer' : 'more'} earlier jobs made a checkpoint. Send it again with the next step, or without a step.`,
  );
}

export function baseModelOf(engine: Engine, id: string): BaseModel {
  const base = engine.baseModels.find((model) => model.id === id);
  if (!base)
    throw new ServiceError(
      422,
      'unknown_base_model',
      `base_model: unknown base model ${JSON.stringify(id)}; known: ${engine.baseModels.map((model) => model.id).join(', ')}.`,
    );
  return base;
}

/** The step `lag` steps before another, at least 0. */
export const stepBefore = (step: number, lag: number): number => Math.max(0, step - lag);

/** The weights of the KL penalty's reference when a job starts: the base model's if its config names none. */
async function findKlReference(
  { store, files }: { store: Store; files: DataFiles },
  { id, baseModel }: ModelRecord,
  { kl_penalty_reference_step: named, kl_penalty_step_lag: lag }: KlReference,
): Promise<Weights> {
  if (named === null && lag === null) return { baseModel, folder: null };
  const start = (await store.newestCheckpoint(id))?.step ?? 0;
  const step = named ?? stepBefore(start, lag ?? 0);
  const checkpoint = await store.checkpoint(id, step);
  if (checkpoint)
    return { baseModel, folder: checkpoint.folder === null ? null : files.checkpointPath(checkpoint.folder) };
  throw new ServiceError(
    422,
    'checkpoint_not_found',
    named === null
      ? `kl_penalty_step_lag: ${lag} steps before step ${start}, which the job starts from, is step ${step}, whose checkpoint was deleted. Keep that one, or send another lag.`
      : `kl_penalty_reference_step: the checkpoint of step ${step} was deleted while the job was queued.`,
  );
}
