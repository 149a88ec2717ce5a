import { Bodies } from './bodies/bodies.ts';
import type { ServiceContext } from './context.ts';
import { Idempotency } from './idempotency.ts';
import { Constraints } from './inference/constraints.ts';
import { baseModelTools, ModelResolver } from './inference/resolve-model.ts';
import { JobEvents } from './jobs/job-events.ts';
import { JobQueue } from './jobs/job-queue.ts';
import { jobPreparation } from './jobs/prepare-job.ts';
import { mend, removeUnused } from './store/cleaning.ts';
import { checkDisk } from './store/durable-files.ts';
import { DataFiles } from './store/files.ts';
import { openSqliteStore } from './store/sqlite-store.ts';

type ServiceParts = Pick<
  ServiceContext,
  | 'engine'
  | 'apiKey'
  | 'keys'
  | 'trainingData'
  | 'bodyLimits'
  | 'admission'
  | 'connections'
  | 'defaultEntity'
  | 'priorityScheduling'
  | 'log'
  | 'closing'
> & { dataFolder: string };

/** Opens the data folder, repairs what a crash left, and assembles the service. No job runs yet. */
export async function openService({ dataFolder, ...given }: ServiceParts): Promise<ServiceContext> {
  const { engine, log } = given;
  const files = await DataFiles.open(dataFolder, log);
  await checkDisk(files.absolute('write-check'));
  const store = openSqliteStore(files.databasePath);
  try {
    await mend(store, files);
    await removeUnused({ store, files });
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
  const bodies = new Bodies(files);
  return { ...given, store, files, bodies, events, queue, models, constraints, tools, idempotency };
}
