import type { JobKind, JobStatus, TrainingEvent } from '../../contract/index.ts';

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
  /** SFT: the sha256 of the upload it trains on. RL jobs have their payload in a file. */
  uploadSha256: string | null;
  /** The span that asked for it, as a W3C `traceparent`; null where none did. */
  traceparent: string | null;
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

export type JobOutcome =
  | { status: 'succeeded'; checkpoint: CheckpointRecord }
  | { status: 'failed' | 'cancelled'; errorMessage: string };

export interface ModelStore {
  /** Resolves to false, and stores nothing, when the name or the id is taken. */
  insertModel(model: ModelRecord, checkpoint: CheckpointRecord): Promise<boolean>;
  model(id: string): Promise<ModelRecord | undefined>;
  modelNamed(entity: string, project: string, name: string): Promise<ModelRecord | undefined>;
  /** Those of an entity, or all. */
  models(page: PageRequest, entity: string | null): Promise<StoredPage<ModelRecord>>;
  /**
   * Removes the model with everything that belongs to it: checkpoints, jobs, events, logs, idempotency keys.
   * Resolves to the checkpoints that went with it; to null, and removes nothing, while a job of it is unfinished.
   */
  deleteModel(id: string): Promise<CheckpointRecord[] | null>;

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
  /** Queued and running jobs, oldest first. */
  unfinishedJobs(): Promise<JobRecord[]>;
  unfinishedJobsOf(modelId: string): Promise<JobRecord[]>;
  countUnfinishedJobs(modelId: string): Promise<{ all: number; ofModel: number }>;
  /** `since`: an ISO date. */
  countJobsEnded(since: string): Promise<number>;
  /** Sets a job running; `event` is stored with it where one is given. */
  startJob(id: string, startedAt: string, event: TrainingEvent | null): Promise<void>;
  /** Sets a running job queued again: it will run anew from its beginning. */
  requeueJob(id: string): Promise<void>;
  /**
   * Ends a job: status, last event and, where it succeeded, the checkpoint and the model's last step. Resolves to
   * false, and stores nothing, where the job has ended before or is gone.
   */
  finishJob(id: string, endedAt: string, outcome: JobOutcome, event: TrainingEvent): Promise<boolean>;

  appendEvent(jobId: string, event: TrainingEvent): Promise<void>;
  events(jobId: string, page: PageRequest): Promise<StoredPage<TrainingEvent>>;
  countEvents(jobId: string, type: TrainingEvent['type']): Promise<number>;
}

/**
 * The service's records. Every method is one transaction and durable when its promise resolves. Lists reject
 * with a 422 when `after` names no item of the list.
 */
export interface Store extends ModelStore, JobStore {
  putConstraint(hash: string, json: string): Promise<void>;
  constraint(hash: string): Promise<string | undefined>;

  /** Keeps the record; where an entity is named, as one of that entity too. */
  putUpload(upload: UploadRecord, entity: string | null): Promise<void>;
  /** An upload as far as an entity has it; with null, as far as anybody has. */
  upload(sha256: string, entity: string | null): Promise<UploadRecord | undefined>;

  /** Of every upload. */
  uploadHashes(): Promise<string[]>;

  logRecord(id: string): Promise<LogRecord | undefined>;
  /** Bytes of the split's file that records cover; what lies behind was never acknowledged. */
  logEnd(modelId: string, split: string): Promise<number>;
  /** The same of every split that the model has records of. */
  logEnds(modelId: string): Promise<Map<string, number>>;
  /** Resolves to false, and stores nothing, where the model is gone. */
  insertLog(log: LogRecord): Promise<boolean>;

  /** Stores the record unless the key is there already, and resolves to what is stored. */
  reserveIdempotencyKey(record: IdempotencyRecord): Promise<IdempotencyRecord>;
  answerIdempotencyKey(
    key: string,
    answer: { status: number; body: unknown },
    modelId: string | null,
  ): Promise<void>;
  releaseIdempotencyKey(key: string): Promise<void>;

  /** Rejects when the store cannot answer. */
  check(): Promise<void>;
  close(): Promise<void>;
}
