import type { JobKind, JobStatus, TrainingEvent, Untrained } from '../../contract/index.ts';

export interface ModelRecord {
  id: string;
  entity: string;
  project: string;
  name: string;
  baseModel: string;
  createdAt: string;
  /** Highest step any job of the model reached. It never goes down, so that a step names one policy for ever. */
  lastStep: number;
  /** The checkpoint that its step 0 was taken from, which may be gone by now; null for a model made from a base model. */
  forkedFrom: { modelId: string; step: number } | null;
}

export interface CheckpointRecord {
  id: string;
  modelId: string;
  step: number;
  /** Path of its weights, relative to the data folder; null for the base model's own. */
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
  /** Why it took no gradient step; null where it took some or has not succeeded. */
  untrained: Untrained | null;
  /** SFT: the sha256 of the upload it trains on. RL jobs have their payload in a file. */
  uploadSha256: string | null;
  /** The span that asked for it, as a W3C `traceparent`; null where none did. */
  traceparent: string | null;
  /** Whom its place counts for: one text for each key. */
  tenant: string;
}

/** What the queue knows of a job that has not ended. */
export interface WaitingJob {
  id: string;
  modelId: string;
  /** Its place in the order in which jobs came. */
  sequence: number;
  /** How many of its runs, one after another, went with the process and had told no further gradient step. */
  lostRuns: number;
}

export interface UploadRecord {
  sha256: string;
  bytes: number;
  examples: number;
}

export interface LogRecord {
  id: string;
  modelId: string;
  split: string;
  /** Where in the split's file the record stands, in bytes. */
  offset: number;
  bytes: number;
  groups: number;
  trajectories: number;
  createdAt: string;
}

/** What was answered under an Idempotency-Key; `answer` is null until there is one. */
export interface IdempotencyRecord {
  key: string;
  fingerprint: string;
  /** The id of what the request makes: chosen before, so that a repeat after a crash makes the same thing. */
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

/** How a job has succeeded: with a new checkpoint, or untrained, with the one that was there. */
export interface JobSuccess {
  status: 'succeeded';
  checkpoint: CheckpointRecord;
  untrained: Untrained | null;
}

export type JobOutcome = JobSuccess | { status: 'failed' | 'cancelled'; errorMessage: string };

export interface ModelStore {
  /** Resolves to false, and stores nothing, when the name or the id is taken. */
  insertModel(model: ModelRecord, checkpoint: CheckpointRecord): Promise<boolean>;
  model(id: string): Promise<ModelRecord | undefined>;
  modelNamed(entity: string, project: string, name: string): Promise<ModelRecord | undefined>;
  /** Those of an entity, or all. */
  models(page: PageRequest, entity: string | null): Promise<StoredPage<ModelRecord>>;
  /** The same, oldest first, a few at a time; those that go or come meanwhile may be among them. */
  everyModel(entity: string | null): AsyncGenerator<ModelRecord[]>;
  /**
   * Removes the model, and makes all that belongs to it one of no model: checkpoints, jobs, events, logs, idempotency
   * keys. Their rows go in `clearDeletedModels`. Resolves to the checkpoints that went with it; to null, and removes
   * nothing, while a job of it is unfinished.
   */
  deleteModel(id: string): Promise<CheckpointRecord[] | null>;
  /** Removes the rows of deleted models, a few in each turn of the event loop. What is left, the next call removes. */
  clearDeletedModels(): Promise<void>;

  checkpoints(modelId: string, page: PageRequest): Promise<StoredPage<CheckpointRecord>>;
  allCheckpoints(modelId: string): Promise<CheckpointRecord[]>;
  checkpoint(modelId: string, step: number): Promise<CheckpointRecord | undefined>;
  newestCheckpoint(modelId: string): Promise<CheckpointRecord | undefined>;
  /** Resolves to those that went; to null, and removes nothing, where the model would be left with none. */
  deleteCheckpoints(modelId: string, steps: number[]): Promise<CheckpointRecord[] | null>;
}

export interface JobStore {
  /** Changes nothing where a job of that id is there already. Resolves to false where its model is gone. */
  insertJob(job: JobRecord): Promise<boolean>;
  job(id: string): Promise<JobRecord | undefined>;
  hasJob(id: string): Promise<boolean>;
  /** Of queued and running jobs the oldest of each model, oldest first. */
  firstJobs(): Promise<WaitingJob[]>;
  /** The place of the newest job of all; 0 where there is none. */
  newestJob(): Promise<number>;
  /** Of queued and running jobs. */
  unfinishedJobIds(): Promise<string[]>;
  /** Oldest first. */
  unfinishedJobsOf(modelId: string): Promise<Pick<JobRecord, 'id' | 'status'>[]>;
  countUnfinishedJobs(of: {
    modelId: string;
    tenant: string;
  }): Promise<{ all: number; ofModel: number; ofTenant: number }>;
  /** `since`: an ISO date. */
  countJobsEnded(since: string): Promise<number>;
  /** Sets a job running; `event` is stored with it where one is given. */
  startJob(id: string, startedAt: string, event: TrainingEvent | null): Promise<void>;
  /** Notes that a run of the job begins. It is lost where the process ends before it is heard of again. */
  beginRun(id: string): Promise<void>;
  /** Sets a job queued again whose run ended in order: it will run anew from its beginning. */
  requeueJob(id: string): Promise<void>;
  /** Sets queued again all jobs whose process is gone, and counts the runs that were lost with it. */
  requeueLostJobs(): Promise<void>;
  /**
   * Ends a job: status, last event and, where it trained, the checkpoint and the model's last step. Resolves to
   * false, and stores nothing, where the job has ended before or is gone.
   */
  finishJob(id: string, endedAt: string, outcome: JobOutcome, event: TrainingEvent): Promise<boolean>;

  /** A gradient step is progress: no run before it counts as lost. */
  appendEvent(jobId: string, event: TrainingEvent): Promise<void>;
  events(jobId: string, page: PageRequest): Promise<StoredPage<TrainingEvent>>;
  countEvents(jobId: string, type: TrainingEvent['type']): Promise<number>;
}

export interface UploadStore {
  /** Keeps the record; where an entity is named, as one of that entity too. */
  putUpload(upload: UploadRecord, entity: string | null): Promise<void>;
  /** Whether anybody has an upload. */
  hasUpload(sha256: string): Promise<boolean>;
  /** Finds an upload as far as an entity has it; with null, as far as anybody has. It is used with that. */
  useUpload(sha256: string, entity: string | null): Promise<UploadRecord | undefined>;
  /** Those that were last used before a time (milliseconds since 1970) and that no unfinished job needs; a few. */
  unusedUploads(before: number): Promise<string[]>;
  /** Removes an upload's record. Resolves to false, and removes nothing, where it is not one of those. */
  removeUnusedUpload(sha256: string, before: number): Promise<boolean>;
  /** Of every upload. */
  uploadHashes(): Promise<string[]>;
}

export interface IdempotencyStore {
  /** Stores the record unless the key is there already, and resolves to what is stored. A key goes with its model. */
  reserveIdempotencyKey(record: IdempotencyRecord): Promise<IdempotencyRecord>;
  answerIdempotencyKey(
    key: string,
    answer: { status: number; body: unknown },
    modelId: string | null,
  ): Promise<void>;
  releaseIdempotencyKey(key: string): Promise<void>;
  /**
   * Forgets keys that were reserved before a time (milliseconds since 1970) and belong to no model, a few at once.
   * What was made under one of them without an answer makes it one of that model. Resolves to false when none is left.
   */
  forgetIdempotencyKeys(before: number): Promise<boolean>;
}

export interface ConstraintRecord {
  hash: string;
  json: string;
  /** When a reply was last sampled under it, to a day: milliseconds since 1970. */
  usedAt: number;
}

/** `entity` null: of keys that no entity is named for. */
export interface ConstraintStore {
  /**
   * Keeps a constraint as one of an entity. Where an entity has more than it has room for, those go that were used
   * longest ago.
   */
  keepConstraint(constraint: ConstraintRecord, entity: string | null): Promise<void>;
  /** When an entity's replies were last sampled under a constraint; undefined where it has none of this hash. */
  constraintUsedAt(hash: string, entity: string | null): Promise<number | undefined>;
  /** The JSON of a constraint that an entity has; with null, that anybody has. */
  constraint(hash: string, entity: string | null): Promise<string | undefined>;
}

/**
 * The service's records. Every method is one transaction, but for those that say otherwise, and durable when its promise
 * resolves. Lists reject with a 422 when `after` names no item of the list.
 */
export interface Store extends ModelStore, JobStore, UploadStore, IdempotencyStore, ConstraintStore {
  logRecord(id: string): Promise<LogRecord | undefined>;
  /** Bytes of the split's file that records cover; what lies behind was never acknowledged. */
  logEnd(modelId: string, split: string): Promise<number>;
  /** The same of every split that the model has records of. */
  logEnds(modelId: string): Promise<Map<string, number>>;
  /** Resolves to false, and stores nothing, where the model is gone. */
  insertLog(log: LogRecord): Promise<boolean>;

  /** Rejects when the store cannot answer. */
  check(): Promise<void>;
  close(): Promise<void>;
}
