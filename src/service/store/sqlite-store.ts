import type { TrainingEvent } from '../../contract/index.ts';
import { SqliteDatabase } from './sqlite-database.ts';
import { readPage } from './sqlite-page.ts';
import type { Row } from './sqlite-rows.ts';
import {
  integer,
  text,
  toCheckpoint,
  toEvent,
  toIdempotencyRecord,
  toJob,
  toLog,
  toModel,
} from './sqlite-rows.ts';
import type {
  CheckpointRecord,
  IdempotencyRecord,
  JobOutcome,
  JobRecord,
  LogRecord,
  ModelRecord,
  PageRequest,
  Store,
  StoredPage,
  UploadRecord,
} from './store.ts';

/** The store in one SQLite file. Writes take about 0.1 ms each, on the calling thread. */
export class SqliteStore implements Store {
  readonly #database: SqliteDatabase;

  constructor(path: string) {
    this.#database = new SqliteDatabase(path);
  }

  async insertModel(model: ModelRecord, checkpoint: CheckpointRecord): Promise<boolean> {
    return this.#database.transaction(() => {
      const inserted = this.#database.run(
        `INSERT INTO models (id, entity, project, name, base_model, created_at, last_step)
         VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
        ...[
          model.id,
          model.entity,
          model.project,
          model.name,
          model.baseModel,
          model.createdAt,
          model.lastStep,
        ],
      );
      if (inserted === 0) return false;
      this.#insertCheckpoint(checkpoint);
      return true;
    });
  }

  async model(id: string): Promise<ModelRecord | undefined> {
    return this.#one(toModel, 'SELECT * FROM models WHERE id = ?', id);
  }

  async modelNamed(entity: string, project: string, name: string): Promise<ModelRecord | undefined> {
    return this.#one(
      toModel,
      'SELECT * FROM models WHERE entity = ? AND project = ? AND name = ?',
      ...[entity, project, name],
    );
  }

  async models(page: PageRequest): Promise<StoredPage<ModelRecord>> {
    return readPage(this.#database, toModel, { table: 'models', order: 'sequence' }, page);
  }

  async deleteModel(id: string): Promise<void> {
    this.#database.transaction(() => {
      this.#database.run('DELETE FROM idempotency_keys WHERE model_id = ?', id);
      this.#database.run('DELETE FROM models WHERE id = ?', id);
    });
  }

  async checkpoints(modelId: string, page: PageRequest): Promise<StoredPage<CheckpointRecord>> {
    return readPage(
      this.#database,
      toCheckpoint,
      { table: 'checkpoints', order: 'step', owner: { column: 'model_id', id: modelId } },
      page,
    );
  }

  async allCheckpoints(modelId: string): Promise<CheckpointRecord[]> {
    return this.#database
      .all('SELECT * FROM checkpoints WHERE model_id = ? ORDER BY step', modelId)
      .map(toCheckpoint);
  }

  async checkpoint(modelId: string, step: number): Promise<CheckpointRecord | undefined> {
    return this.#one(
      toCheckpoint,
      'SELECT * FROM checkpoints WHERE model_id = ? AND step = ?',
      modelId,
      step,
    );
  }

  async newestCheckpoint(modelId: string): Promise<CheckpointRecord | undefined> {
    return this.#one(
      toCheckpoint,
      'SELECT * FROM checkpoints WHERE model_id = ? ORDER BY step DESC LIMIT 1',
      modelId,
    );
  }

  async deleteCheckpoints(modelId: string, steps: number[]): Promise<void> {
    this.#database.transaction(() => {
      for (const step of steps)
        this.#database.run('DELETE FROM checkpoints WHERE model_id = ? AND step = ?', modelId, step);
    });
  }

  async insertJob(job: JobRecord): Promise<void> {
    this.#database.run(
      `INSERT INTO jobs (id, model_id, kind, status, created_at, resolved_config, upload_sha256)
       VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
      ...[job.id, job.modelId, job.kind, job.status, job.createdAt],
      JSON.stringify(job.resolvedConfig),
      job.uploadSha256,
    );
  }

  async job(id: string): Promise<JobRecord | undefined> {
    return this.#one(toJob, 'SELECT * FROM jobs WHERE id = ?', id);
  }

  async unfinishedJobs(): Promise<JobRecord[]> {
    return this.#database
      .all("SELECT * FROM jobs WHERE status IN ('queued', 'running') ORDER BY sequence")
      .map(toJob);
  }

  async unfinishedJobsOf(modelId: string): Promise<JobRecord[]> {
    return (await this.unfinishedJobs()).filter((job) => job.modelId === modelId);
  }

  async startJob(id: string, startedAt: string, event: TrainingEvent | null): Promise<void> {
    this.#database.transaction(() => {
      this.#database.run("UPDATE jobs SET status = 'running', started_at = ? WHERE id = ?", startedAt, id);
      if (event) this.#insertEvent(id, event);
    });
  }

  async requeueJob(id: string): Promise<void> {
    this.#database.run(
      "UPDATE jobs SET status = 'queued', started_at = NULL WHERE id = ? AND status = 'running'",
      id,
    );
  }

  async finishJob(id: string, endedAt: string, outcome: JobOutcome, event: TrainingEvent): Promise<void> {
    this.#database.transaction(() => {
      const errorMessage = outcome.status === 'succeeded' ? null : outcome.errorMessage;
      const step = outcome.status === 'succeeded' ? outcome.checkpoint.step : null;
      this.#database.run(
        'UPDATE jobs SET status = ?, ended_at = ?, error_message = ?, step = ? WHERE id = ?',
        ...[outcome.status, endedAt, errorMessage, step, id],
      );
      if (outcome.status === 'succeeded') {
        this.#insertCheckpoint(outcome.checkpoint);
        this.#database.run(
          'UPDATE models SET last_step = max(last_step, ?) WHERE id = ?',
          ...[outcome.checkpoint.step, outcome.checkpoint.modelId],
        );
      }
      this.#insertEvent(id, event);
    });
  }

  async appendEvent(jobId: string, event: TrainingEvent): Promise<void> {
    this.#insertEvent(jobId, event);
  }

  async events(jobId: string, page: PageRequest): Promise<StoredPage<TrainingEvent>> {
    return readPage(
      this.#database,
      toEvent,
      { table: 'events', order: 'sequence', owner: { column: 'job_id', id: jobId } },
      page,
    );
  }

  async countEvents(jobId: string, type: TrainingEvent['type']): Promise<number> {
    const row = this.#database.one(
      'SELECT count(*) AS count FROM events WHERE job_id = ? AND type = ?',
      jobId,
      type,
    );
    return row ? integer(row, 'count') : 0;
  }

  async putConstraint(hash: string, json: string): Promise<void> {
    this.#database.run(
      'INSERT INTO constraints (hash, json) VALUES (?, ?) ON CONFLICT DO NOTHING',
      hash,
      json,
    );
  }

  async constraint(hash: string): Promise<string | undefined> {
    return this.#one((row) => text(row, 'json'), 'SELECT json FROM constraints WHERE hash = ?', hash);
  }

  async putUpload(upload: UploadRecord): Promise<void> {
    this.#database.run(
      'INSERT INTO uploads (sha256, bytes, examples) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
      ...[upload.sha256, upload.bytes, upload.examples],
    );
  }

  async upload(sha256: string): Promise<UploadRecord | undefined> {
    return this.#one(
      (row) => ({ sha256, bytes: integer(row, 'bytes'), examples: integer(row, 'examples') }),
      'SELECT bytes, examples FROM uploads WHERE sha256 = ?',
      sha256,
    );
  }

  async logRecord(id: string): Promise<LogRecord | undefined> {
    return this.#one(toLog, 'SELECT * FROM logs WHERE id = ?', id);
  }

  async logEnd(modelId: string, split: string): Promise<number> {
    const row = this.#database.one(
      'SELECT coalesce(max("offset" + bytes), 0) AS "end" FROM logs WHERE model_id = ? AND split = ?',
      ...[modelId, split],
    );
    return row ? integer(row, 'end') : 0;
  }

  async insertLog(log: LogRecord): Promise<void> {
    this.#database.run(
      `INSERT INTO logs (id, model_id, split, "offset", bytes, "groups", trajectories, created_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      ...[log.id, log.modelId, log.split, log.offset, log.bytes, log.groups, log.trajectories, log.createdAt],
    );
  }

  async reserveIdempotencyKey(record: IdempotencyRecord): Promise<IdempotencyRecord> {
    this.#database.run(
      'INSERT INTO idempotency_keys (key, fingerprint, resource_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
      ...[record.key, record.fingerprint, record.resourceId],
    );
    const row = this.#database.one('SELECT * FROM idempotency_keys WHERE key = ?', record.key);
    return row ? toIdempotencyRecord(row) : record;
  }

  async answerIdempotencyKey(
    key: string,
    answer: { status: number; body: unknown },
    modelId: string | null,
  ): Promise<void> {
    this.#database.run(
      'UPDATE idempotency_keys SET status = ?, body = ?, model_id = ? WHERE key = ?',
      ...[answer.status, JSON.stringify(answer.body), modelId, key],
    );
  }

  async releaseIdempotencyKey(key: string): Promise<void> {
    this.#database.run('DELETE FROM idempotency_keys WHERE key = ? AND status IS NULL', key);
  }

  async check(): Promise<void> {
    this.#database.one('SELECT count(*) FROM models');
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  #one<Item>(read: (row: Row) => Item, sql: string, ...values: (string | number)[]): Item | undefined {
    const row = this.#database.one(sql, ...values);
    return row === undefined ? undefined : read(row);
  }

  #insertCheckpoint(checkpoint: CheckpointRecord): void {
    this.#database.run(
      'INSERT INTO checkpoints (id, model_id, step, folder, metrics, created_at) VALUES (?, ?, ?, ?, ?, ?)',
      ...[checkpoint.id, checkpoint.modelId, checkpoint.step, checkpoint.folder],
      JSON.stringify(checkpoint.metrics),
      checkpoint.createdAt,
    );
  }

  #insertEvent(jobId: string, event: TrainingEvent): void {
    this.#database.run(
      'INSERT INTO events (id, job_id, type, data) VALUES (?, ?, ?, ?)',
      ...[event.id, jobId, event.type, JSON.stringify(event.data)],
    );
  }
}
