import type { ServiceContext } from './context.ts';
import { Idempotency } from './idempotency.ts';
import { baseModelTools } from './inference/base-model-tools.ts';
import { Constraints } from './inference/constraint/constraints.ts';
import { ModelResolver } from './inference/resolve-model.ts';
import { JobEvents } from './jobs/job-events.ts';
import { JobQueue } from './jobs/job-queue.ts';
import { jobPreparation } from './jobs/prepare-job.ts';
import { DataFiles } from './store/files.ts';
import { openSqliteStore } from './store/sqlite-store.ts';
import type { Store } from './store/store.ts';

type Given = Pick<
  ServiceContext,
  | 'engine'
  | 'apiKey'
  | 'keys'
  | 'trainingData'
  | 'bodyLimits'
  | 'defaultEntity'
  | 'priorityScheduling'
  | 'log'
  | 'closing'
> & { dataFolder: string };

/** Opens the data folder, mends what a crash left in it, and puts the service's parts together. No job runs yet. */
export async function openService({ dataFolder, ...given }: Given): Promise<ServiceContext> {
  const { engine, log } = given;
  const files = await DataFiles.open(dataFolder);
  const store = openSqliteStore(files.databasePath);
  try {
    await mend(store, files);
  } catch (error) {
    await store.close();
    throw error;
  }
  const events = new JobEvents(store);
  const models = new ModelResolver(engine, store, files);
  const constraints = new Constraints(engine, store);
  const tools = baseModelTools(engine);
  const queue = new JobQueue({
    engine,
    store,
    files,
    events,
    prepare: jobPreparation({ engine, store, files, constraints, tools }),
    onCheckpoint: () => models.forget(),
    log,
  });
  const idempotency = new Idempotency(store);
  return { ...given, store, files, events, queue, models, constraints, tools, idempotency };
}

/**
 * After a crash: jobs that ran are queued again, and files without a record are removed, since only a record makes
 * a checkpoint, a model or a payload.
 */
async function mend(store: Store, files: DataFiles): Promise<void> {
  const unfinished = await store.unfinishedJobs();
  for (const job of unfinished) if (job.status === 'running') await store.requeueJob(job.id);
  await files.removePartialUploads();
  const needed = new Set(unfinished.map((job) => job.id));
  for (const jobId of await files.payloadJobIds()) if (!needed.has(jobId)) await files.removePayload(jobId);
  for (const [modelId, folders] of await files.modelFolders()) {
    if ((await store.model(modelId)) === undefined) {
      await files.removeModel(modelId);
      continue;
    }
    const recorded = new Set((await store.allCheckpoints(modelId)).map(({ folder }) => folder));
    for (const folder of folders) if (!recorded.has(folder)) await files.removeCheckpoint(folder);
  }
}
