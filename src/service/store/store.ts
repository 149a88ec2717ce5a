import type { JobKind, JobStatus, TrainingEvent, Untrained } from '../../contract/index.ts';
import type { LostRuns } from './lost-runs.ts';

export interface ModelRecord {
  id: string;
  entity: string;
  project: string;
  name: string;
  baseModel: string;
  createdAt: string;
  /**
   * Highest step that any job of the model reached. It never decreases, so a step always names the same
   * policy.
   */
  lastStep: number;
  /**
   * The checkpoint that step 0 was copied from, which may be deleted; null for a model created from a base
   * model.
   */
  forkedFrom: { modelId: string; step: number } | null;
}

export interface CheckpointRecord {
  id: string;
  modelId: string;
  step: number;
  /** Path of its weights, relative to the data folder; null for the base model's weights. */
  folder: string | null;
  metrics: Record<string, number>;
  createdAt: string;
}

export interface JobRecord {
  id: string;
  modelId: string;
  kind: JobKind;
  status: JobStatus;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  errorMessage: string | null;
  resolvedConfig: Record<string, unknown>;
  step: number | null;
  /** Why the job took no gradient step; null if it took some or has not succeeded. */
  untrained: Untrained | null;
  /** For SFT: the SHA-256 of the upload to train on. RL jobs have their payload in a file. */
  uploadSha256: string | null;
  /** For RL: the ids of the stored groups to train on, until the job has ended. Null for groups in its payload. */
  groupIds: readonly string[] | null;
  /** The trace span of the request, as a W3C `traceparent`; null if there was none. */
  traceparent: string | null;
  /** The tenant that the job counts for: one string per key. */
  tenant: string;
}

/** What the queue needs to know about an unfinished job. */
export interface WaitingJob {
  id: string;
  modelId: string;
  /** Order of arrival among all jobs. */
  sequence: number;
  /** Sum of the weights of its runs that ended with the process: see `lost-runs.ts`. */
  lostRuns: number;
}

export interface UploadRecord {
  sha256: string;
  bytes: number;
  examples: number;
}

/** A group that was sent by itself, for jobs and logs to name. */
export interface GroupRecord {
  id: string;
  modelId: string;
  /** The tenant that it counts for until a job or log names it. */
  tenant: string;
  /** Size of the gzip member with its JSON, at the beginning of its file, and of the whole file. */
  memberBytes: number;
  bytes: number;
  trajectories: number;
  sampledTokens: number;
  trainableTokens: number;
}

export interface LogRecord {
  id: string;
  modelId: string;
  split: string;
  /** Offset of the record in the split's file, in bytes. */
  offset: number;
  bytes: number;
  groups: number;
  trajectories: number;
  createdAt: string;
}

/** The answer under an Idempotency-Key; `answer` is null until there is one. */
export interface IdempotencyRecord {
  key: string;
  fingerprint: string;
  /**
   * The id of the resource that the request creates. Chosen beforehand, so that a repeat after a crash
   * creates the same one.
   */
  resourceId: string;
  answer: { status: number; body: unknown } | null;
}

export interface PageRequest {
  after?: string | undefined;
  limit: number;
  order: 'asc' | 'desc';
}

export interface StoredPage<Item> {
  items: Item[];
  hasMore: boolean;
}

/** How a job succeeded: with a new checkpoint or, untrained, with the existing one. */
export interface JobSuccess {
  status: 'succeeded';
  checkpoint: CheckpointRecord;
  untrained: Untrained | null;
}

export type JobOutcome =
  | JobSuccess
  | {
      status: 'failed' | 'cancelled';
      errorMessage: string;
      /** `process_lost`: the process ended too often while the job ran, which need not be the job's doing. */
      reason?: 'process_lost';
    };

export interface ModelStore {
  /** Resolves to false, and stores nothing, if the name or the id is taken. */
  insertModel(model: ModelRecord, checkpoint: CheckpointRecord): Promise<boolean>;
  model(id: string): Promise<ModelRecord | undefined>;
  modelNamed(entity: string, project: string, name: string): Promise<ModelRecord | undefined>;
  /** The models of an entity; with null, all models. */
  models(page: PageRequest, entity: string | null): Promise<StoredPage<ModelRecord>>;
  /** All models as for `models`, oldest first, in batches. May include models created or deleted meanwhile. */
  everyModel(entity: string | null): AsyncGenerator<ModelRecord[]>;
  /**
   * Deletes the model and marks everything that belongs to it (checkpoints, jobs, events, logs,
   * idempotency keys) for `clearDeletedModels`. Resolves to its checkpoints; to null, and deletes nothing,
   * if it has an unfinished job.
   */
  deleteModel(id: string): Promise<CheckpointRecord[] | null>;
  /** Removes the rows of deleted models, a few per tick. If interrupted, the next call continues. */
  clearDeletedModels(): Promise<void>;
  /** Deleted models that may have left rows or files. */
  deletedModelIds(): Promise<string[]>;

  checkpoints(modelId: string, page: PageRequest): Promise<StoredPage<CheckpointRecord>>;
  allCheckpoints(modelId: string): Promise<CheckpointRecord[]>;
  checkpoint(modelId: string, step: number): Promise<CheckpointRecord | undefined>;
  newestCheckpoint(modelId: string): Promise<CheckpointRecord | undefined>;
  /** Resolves to the deleted checkpoints; to null, and deletes nothing, if none would be left. */
  deleteCheckpoints(modelId: string, steps: number[]): Promise<CheckpointRecord[] | null>;
}

export interface JobStore {
  /**
   * Does nothing if a job with this id exists. Resolves to false if its model is deleted or lacks one of its groups.
   */
  insertJob(job: JobRecord): Promise<boolean>;
  job(id: string): Promise<JobRecord | undefined>;
  jobsOf(modelId: string, page: PageRequest): Promise<StoredPage<JobRecord>>;
  hasJob(id: string): Promise<boolean>;
  /** The oldest unfinished job of each model, oldest first. */
  firstJobs(): Promise<WaitingJob[]>;
  /** The `sequence` of the newest job; 0 if there is none. */
  newestJob(): Promise<number>;
  /** Ids of queued and running jobs. */
  unfinishedJobIds(): Promise<string[]>;
  /** Oldest first. */
  unfinishedJobsOf(modelId: string): Promise<Pick<JobRecord, 'id' | 'status'>[]>;
  countUnfinishedJobs(of: {
    modelId: string;
    tenant: string;
  }): Promise<{ all: number; ofModel: number; ofTenant: number }>;
  /** `since`: an ISO 8601 date. */
  countJobsEnded(since: string): Promise<number>;
  /** Marks a job as running and stores `event` with it, if there is one. */
  startJob(id: string, startedAt: string, event: TrainingEvent | null): Promise<void>;
  /**
   * Records that a run of the job begins. It counts as lost if the process ends before the run has ended or taken a
   * gradient step.
   */
  beginRun(id: string): Promise<void>;
  /** Notes how long the run of a job has lasted, in milliseconds. */
  noteRun(id: string, ranMs: number): Promise<void>;
  /** The runs of a job that ended with the process; undefined if it has run none. */
  lostRuns(id: string): Promise<LostRuns | undefined>;
  /** The process is about to end in order: the end of no run counts. */
  closeRuns(): Promise<void>;
  /** Puts a job back into the queue after an orderly end of its run; it will start from the beginning. */
  requeueJob(id: string): Promise<void>;
  /** Requeues all jobs that were running when the process ended, and counts their lost runs. */
  requeueLostJobs(): Promise<void>;
  /**
   * Ends a job: stores its status, last event and, if it trained, the checkpoint and the model's last
   * step. Resolves to false, and stores nothing, if the job ended before or is deleted.
   */
  finishJob(id: string, endedAt: string, outcome: JobOutcome, event: TrainingEvent): Promise<boolean>;

  /** Stores an event. A gradient step is progress: it resets the count of lost runs. */
  appendEvent(jobId: string, event: TrainingEvent): Promise<void>;
  events(jobId: string, page: PageRequest): Promise<StoredPage<TrainingEvent>>;
  countEvents(jobId: string, type: TrainingEvent['type']): Promise<number>;
}

type UnusedBefore = Record<'unnamed' | 'named', number>;

/** Stored groups. They are deleted with their model. */
export interface GroupStore {
  /** Resolves to false, and stores nothing, if the model is deleted. */
  insertGroup(group: GroupRecord): Promise<boolean>;
  /** Finds a group of a model that is sent again: its time until it is unused begins anew. */
  useGroup(modelId: string, id: string): Promise<GroupRecord | undefined>;
  /** The groups of a model among these ids, by id. */
  groupsOf(modelId: string, ids: readonly string[]): Promise<ReadonlyMap<string, GroupRecord>>;
  /** Ids of all groups of a model. */
  groupIds(modelId: string): Promise<string[]>;
  /** Groups that no job or log has named. */
  countGroups(tenant: string): Promise<{ all: number; ofTenant: number }>;
  /**
   * Some groups that no unfinished job needs, last sent or named before the times (milliseconds since 1970) for those that
   * were never named and for the others.
   */
  unusedGroups(before: UnusedBefore): Promise<Pick<GroupRecord, 'id' | 'modelId'>[]>;
  /** Removes a group's record. Resolves to false, and removes nothing, if the group is in use again. */
  removeUnusedGroup(id: string, before: UnusedBefore): Promise<boolean>;
}

export interface UploadStore {
  /** Stores the record, for `entity` if it is not null. */
  putUpload(upload: UploadRecord, entity: string | null): Promise<void>;
  /** Whether the upload exists for any entity. */
  hasUpload(sha256: string): Promise<boolean>;
  /** Finds an upload of an entity (with null, of any) and updates its last use. */
  useUpload(sha256: string, entity: string | null): Promise<UploadRecord | undefined>;
  /** Some uploads last used before a time (milliseconds since 1970) that no unfinished job needs. */
  unusedUploads(before: number): Promise<string[]>;
  /** Removes an upload's record. Resolves to false, and removes nothing, if the upload is in use again. */
  removeUnusedUpload(sha256: string, before: number): Promise<boolean>;
  /** Hashes of all uploads. */
  uploadHashes(): Promise<string[]>;
}

export interface IdempotencyStore {
  /**
   * Stores the record unless the key exists, and resolves to the stored record. A key is deleted with its
   * model.
   */
  reserveIdempotencyKey(record: IdempotencyRecord): Promise<IdempotencyRecord>;
  answerIdempotencyKey(
    key: string,
    answer: { status: number; body: unknown },
    modelId: string | null,
  ): Promise<void>;
  releaseIdempotencyKey(key: string): Promise<void>;
  /**
   * Removes some keys without a model that were reserved before a time (milliseconds since 1970). A key
   * whose resource has a model is assigned to that model instead. Resolves to false once none is left.
   */
  forgetIdempotencyKeys(before: number): Promise<boolean>;
}

interface ConstraintRecord {
  hash: string;
  json: string;
  /** When a reply was last sampled under it, accurate to a day: milliseconds since 1970. */
  usedAt: number;
}

/** With a null `entity`, constraints of keys without an entity. */
export interface ConstraintStore {
  /**
   * Stores a constraint for an entity. If the entity exceeds its limit, its least recently used constraints
   * are removed.
   */
  keepConstraint(constraint: ConstraintRecord, entity: string | null): Promise<void>;
  /**
   * When an entity's replies were last sampled under a constraint; undefined if it has none with this
   * hash.
   */
  constraintUsedAt(hash: string, entity: string | null): Promise<number | undefined>;
  /** The JSON of an entity's constraint; with null, of any entity's. */
  constraint(hash: string, entity: string | null): Promise<string | undefined>;
}

/**
 * The service's records. Every method is one transaction, unless stated otherwise, and durable when its
 * promise resolves. Lists reject with a 422 if `after` is not in the list.
 */
export interface Store
  extends ModelStore,
    JobStore,
    GroupStore,
    UploadStore,
    IdempotencyStore,
    ConstraintStore {
  logRecord(id: string): Promise<LogRecord | undefined>;
  /** Bytes of the split's file that records cover; anything after them was never acknowledged. */
  logEnd(modelId: string, split: string): Promise<number>;
  /** `logEnd` of each split of the model that has records. */
  logEnds(modelId: string): Promise<Map<string, number>>;
  /**
   * Stores the record of a log, which names these stored groups. Resolves to false, and stores nothing, if the model is
   * deleted.
   */
  insertLog(log: LogRecord, groupIds?: readonly string[]): Promise<boolean>;

  /** Rejects if the store does not work. */
  check(): Promise<void>;
  close(): Promise<void>;
}
