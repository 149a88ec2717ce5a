import type { TrainingEvent } from '../../contract/index.ts';
import type { SqliteDatabase } from './sqlite-database.ts';
import { readPage } from './sqlite-page.ts';
import { integer, toEvent, toJob } from './sqlite-rows.ts';
import { hasModel, insertCheckpoint, readOne, unfinished } from './sqlite-statements.ts';
import type { JobOutcome, JobRecord, JobStore, PageRequest, StoredPage } from './store.ts';

/** Training jobs and their events. */
export function sqliteJobs(database: SqliteDatabase): JobStore {
  return {
    async insertJob(job: JobRecord): Promise<boolean> {
      return database.transaction(() => {
        if (!hasModel(database, job.modelId)) return false;
        database.run(
          `INSERT INTO jobs (id, model_id, kind, status, created_at, resolved_config, upload_sha256, traceparent)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
          ...[job.id, job.modelId, job.kind, job.status, job.createdAt],
          JSON.stringify(job.resolvedConfig),
          job.uploadSha256,
          job.traceparent,
        );
        return true;
      });
    },

    async job(id: string): Promise<JobRecord | undefined> {
      return readOne(database, toJob, 'SELECT * FROM jobs WHERE id = ?', id);
    },

    async unfinishedJobs(): Promise<JobRecord[]> {
      return database.all(`SELECT * FROM jobs WHERE ${unfinished} ORDER BY sequence`).map(toJob);
    },

    async unfinishedJobsOf(modelId: string): Promise<JobRecord[]> {
      return database
        .all(`SELECT * FROM jobs WHERE model_id = ? AND ${unfinished} ORDER BY sequence`, modelId)
        .map(toJob);
    },

    async countUnfinishedJobs(modelId: string): Promise<{ all: number; ofModel: number }> {
      const row = database.one(
        `SELECT count(*) AS count, coalesce(sum(model_id = ?), 0) AS of_model FROM jobs WHERE ${unfinished}`,
        modelId,
      );
      return row ? { all: integer(row, 'count'), ofModel: integer(row, 'of_model') } : { all: 0, ofModel: 0 };
    },

    async countJobsEnded(since: string): Promise<number> {
      const row = database.one('SELECT count(*) AS count FROM jobs WHERE ended_at > ?', since);
      return row ? integer(row, 'count') : 0;
    },

    async startJob(id: string, startedAt: string, event: TrainingEvent | null): Promise<void> {
      database.transaction(() => {
        database.run("UPDATE jobs SET status = 'running', started_at = ? WHERE id = ?", startedAt, id);
        if (event) insertEvent(database, id, event);
      });
    },

    async requeueJob(id: string): Promise<void> {
      database.run(
        "UPDATE jobs SET status = 'queued', started_at = NULL WHERE id = ? AND status = 'running'",
        id,
      );
    },

    async finishJob(
      id: string,
      endedAt: string,
      outcome: JobOutcome,
      event: TrainingEvent,
    ): Promise<boolean> {
      return database.transaction(() => {
        const errorMessage = outcome.status === 'succeeded' ? null : outcome.errorMessage;
        const step = outcome.status === 'succeeded' ? outcome.checkpoint.step : null;
        const ended = database.run(
          `UPDATE jobs SET status = ?, ended_at = ?, error_message = ?, step = ? WHERE id = ? AND ${unfinished}`,
          ...[outcome.status, endedAt, errorMessage, step, id],
        );
        if (ended === 0) return false;
        if (outcome.status === 'succeeded') {
          insertCheckpoint(database, outcome.checkpoint);
          database.run(
            'UPDATE models SET last_step = max(last_step, ?) WHERE id = ?',
            ...[outcome.checkpoint.step, outcome.checkpoint.modelId],
          );
        }
        insertEvent(database, id, event);
        return true;
      });
    },

    async appendEvent(jobId: string, event: TrainingEvent): Promise<void> {
      insertEvent(database, jobId, event);
    },

    async events(jobId: string, page: PageRequest): Promise<StoredPage<TrainingEvent>> {
      return readPage(
        database,
        toEvent,
        { table: 'events', order: 'sequence', owner: { column: 'job_id', id: jobId } },
        page,
      );
    },

    async countEvents(jobId: string, type: TrainingEvent['type']): Promise<number> {
      const row = database.one(
        'SELECT count(*) AS count FROM events WHERE job_id = ? AND type = ?',
        jobId,
        type,
      );
      return row ? integer(row, 'count') : 0;
    },
  };
}

function insertEvent(database: SqliteDatabase, jobId: string, event: TrainingEvent): void {
  database.run(
    'INSERT INTO events (id, job_id, type, data) VALUES (?, ?, ?, ?)',
    ...[event.id, jobId, event.type, JSON.stringify(event.data)],
  );
}
