import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '../util/error.ts';
import type { ServiceContext } from './context.ts';
import { messageOf, ServiceError } from './errors.ts';
import { type FaultCode, faultCodeOf } from './faults.ts';
import { Idempotency } from './idempotency.ts';
import { Constraints } from './inference/constraints.ts';
import { baseModelTools, ModelResolver } from './inference/resolve-model.ts';
import { GroupPacker } from './jobs/group-packer.ts';
import { JobEvents } from './jobs/job-events.ts';
import { JobQueue } from './jobs/job-queue.ts';
import { RecentPayloads } from './jobs/packed-trajectories.ts';
import { jobPreparation } from './jobs/prepare-job.ts';
import { RecentTokens } from './jobs/trained-tokens.ts';
import { refuseModels, removeUnused, repair } from './store/cleaning.ts';
import { checkDisk } from './store/durable-files.ts';
import { DataFiles } from './store/files.ts';
import { KeyStore } from './store/key-store.ts';
import { openSqliteStore } from './store/sqlite-store.ts';

type OpenedPart =
  | 'store'
  | 'files'
  | 'events'
  | 'queue'
  | 'models'
  | 'constraints'
  | 'tools'
  | 'idempotency'
  | 'groupPacker'
  | 'recentPayloads'
  | 'recentTokens';

/** Opens the data folder, repairs what a crash left, and assembles the service. No job runs yet. */
export async function openService({
  dataFolder,
  ...parts
}: Omit<ServiceContext, OpenedPart> & { dataFolder: string }): Promise<ServiceContext> {
  const { engine, log } = parts;
  const files = await DataFiles.open(dataFolder, log);
  await checkDisk(files.absolute('write-check'));
  await checkRecords(files);
  const store = openSqliteStore(files.databasePath);
  try {
    await repair(store, files);
    await removeUnused({ store, files });
  } catch (error) {
    await store.close();
    throw error;
  }
  const events = new JobEvents(store);
  const tools = baseModelTools(engine);
  const models = new ModelResolver(engine, store, files, tools);
  const constraints = new Constraints(engine, store);
  const groupPacker = new GroupPacker((baseModel) => engine.sharedLanguage?.(baseModel));
  const recentPayloads = new RecentPayloads();
  const recentTokens = new RecentTokens();
  const queue = new JobQueue({
    engine,
    store,
    files,
    events,
    prepare: jobPreparation({ engine, store, files, constraints, tools, recentPayloads, recentTokens }),
    onEnd: (jobId) => recentPayloads.forget(jobId),
    onCheckpoint: () => models.forget(),
    log,
  });
  const idempotency = new Idempotency(store);
  return {
    ...parts,
    store,
    files,
    events,
    queue,
    models,
    constraints,
    tools,
    idempotency,
    groupPacker,
    recentPayloads,
    recentTokens,
  };
}

/** A new database beside models would make them unknown, and SQLite would throw away the side file of the old one. */
async function checkRecords(files: DataFiles): Promise<void> {
  const size = await stat(files.databasePath).then(
    (found) => found.size,
    (error: unknown) => {
      if (hasCode(error, 'ENOENT')) return 0;
      throw error;
    },
  );
  if (size > 0) return;
  await refuseModels(files, (await files.modelFolders()).keys());
}

/**
 * Opens the key store of a data folder and creates both if they are missing.
 *
 * @throws ServiceError `bad_data_folder`, `storage_full`, `storage_read_only` or `storage_failed` if that
 * fails.
 */
export async function openKeys(dataFolder: string): Promise<KeyStore> {
  try {
    return await KeyStore.open(dataFolder);
  } catch (error) {
    throw await folderError(error, dataFolder);
  }
}

/** What to do about a data folder that the machine cannot write. */
const remedies: Record<FaultCode, string> = {
  storage_full: 'Free space on that disk, or choose another data folder.',
  storage_read_only:
    'Make the folder writable for the user the service runs as, or choose another data folder.',
  storage_failed: 'Check that disk, or choose another data folder.',
  too_many_files: 'Let the process open more files (ulimit -n).',
  out_of_memory: 'Give the process more memory.',
};

/** What is wrong with a path where no folder can be created, by errno(3) code. */
const pathErrors: Record<string, string> = {
  EEXIST: 'The path is a file. ',
  ENOTDIR: 'A part of the path is a file. ',
  ENOENT: 'No folder can be created there. ',
  ENAMETOOLONG: '',
  ELOOP: '',
};

/** The error to show when the data folder cannot be opened. */
export async function folderError(error: unknown, dataFolder: string): Promise<unknown> {
  if (error instanceof ServiceError) return error;
  // SQLite only says that it cannot open the file; writing a file shows the reason.
  const written =
    faultCodeOf(error) &&
    (await checkDisk(join(dataFolder, 'write-check')).catch((reason: unknown) => reason));
  const cause = faultCodeOf(written) ? written : error;
  const code = faultCodeOf(cause);
  const pathError = error instanceof Error && 'code' in error ? pathErrors[String(error.code)] : undefined;
  const remedy = code
    ? remedies[code]
    : pathError === undefined
      ? null
      : `${pathError}Choose another data folder.`;
  if (remedy === null) return error;
  return new ServiceError(
    500,
    code ?? 'bad_data_folder',
    `The service cannot keep its data in ${dataFolder}: ${messageOf(cause)}. ${remedy}`,
    { cause },
  );
}
