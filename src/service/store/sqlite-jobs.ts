import { jobStatusSchema, type TrainingEvent } from '../../contract/index.ts';
import { integer, readPage, type SqliteDatabase, text } from './sqlite-database.ts';
import {
  hasModel,
  insertCheckpoint,
  readOne,
  toEvent,
  toJob,
  toWaitingJob,
  unfinished,
} from './sqlite-rows.ts';
import type { JobOutcome, JobRecord, JobStore, PageRequest, StoredPage, WaitingJob } from './store.ts';

/** Training jobs and their events. */
export function sqliteJobs(database: SqliteDatabase): JobStore {
  return {
    async insertJob(job: JobRecord): Promise<boolean> {
      return database.transaction(() => {
        if (!hasModel(database, job.modelId)) return false;
        database.run(
          `INSERT INTO jobs (id, model_id, kind, status, created_at, resolved_config, upload_sha256, traceparent, tenant)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
          ...[job.id, job.modelId, job.kind, job.status, job.createdAt],
          JSON.stringify(job.resolvedConfig),
          job.uploadSha256,
          job.traceparent,
          job.tenant,
        );
        return true;
      });
    },

    async job(id: string): Promise<JobRecord | undefined> {
      return readOne(database, toJob, 'SELECT * FROM jobs WHERE id = ?', id);
    },

    async hasJob(id: string): Promise<boolean> {
      return database.one('SELECT 1 FROM jobs WHERE id = ?', id) !== undefined;
    },

    async firstJobs(): Promise<WaitingJob[]> {
      return database
        .all(
          `SELECT first.*, coalesce(lost, 0) AS lost FROM
             (SELECT min(sequence) AS sequence, id, model_id FROM jobs WHERE ${unfinished} GROUP BY model_id) first
           LEFT JOIN job_runs ON job_id = id ORDER BY sequence`,
        )
        .map(toWaitingJob);
    },

    async newestJob(): Promise<number> {
      const row = database.one('SELECT coalesce(max(sequence), 0) AS sequence FROM jobs');
      return row ? integer(row, 'sequence') : 0;
    },

    async unfinishedJobIds(): Promise<string[]> {
      return database.all(`SELECT id FROM jobs WHERE ${unfinished}`).map((row) => text(row, 'id'));
    },

    async unfinishedJobsOf(modelId: string) {
      return database
        .all(`SELECT id, status FROM jobs WHERE model_id = ? AND ${unfinished} ORDER BY sequence`, modelId)
        .map((row) => ({ id: text(row, 'id'), status: jobStatusSchema.parse(text(row, 'status')) }));
    },

    async countUnfinishedJobs({ modelId, tenant }: { modelId: string; tenant: string }) {
      const row = database.one(
        `SELECT count(*) AS count, coalesce(sum(model_id = ?), 0) AS of_model, coalesce(sum(tenant = ?), 0) AS of_tenant
         FROM jobs WHERE ${unfinished}`,
        modelId,
        tenant,
      );
      const count = (column: string) => (row ? integer(row, column) : 0);
      return { all: count('count'), ofModel: count('of_model'), ofTenant: count('of_tenant') };
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

    async beginRun(id: string): Promise<void> {
      database.run(
        `INSERT INTO job_runs (job_id, is_open, lost) VALUES (?, 1, 0)
         ON CONFLICT (job_id) DO UPDATE SET is_open = 1`,
        id,
      );
    },

    async requeueJob(id: string): Promise<void> {
      database.transaction(() => {
        database.run('UPDATE job_runs SET is_open = 0 WHERE job_id = ?', id);
        database.run(
          "UPDATE jobs SET status = 'queued', started_at = NULL WHERE id = ? AND status = 'running'",
          id,
        );
      });
    },

    async requeueLostJobs(): Promise<void> {
      database.transaction(() => {
        database.run('UPDATE job_runs SET is_open = 0, lost = lost + 1 WHERE is_open = 1');
        database.run(
          `UPDATE jobs SET status = 'queued', started_at = NULL WHERE ${unfinished} AND status = 'running'`,
        );
      });
    },

    async finishJob(
      id: string,
      endedAt: string,
      outcome: JobOutcome,
      event: TrainingEvent,
    ): Promise<boolean> {
      return database.transaction(() => {
        const success = outcome.status === 'succeeded' ? outcome : null;
        const errorMessage = outcome.status === 'succeeded' ? null : outcome.errorMessage;
        const ended = database.run(
          `UPDATE jobs SET status = ?, ended_at = ?, error_message = ?, step = ?, untrained = ?
           WHERE id = ? AND ${unfinished}`,
          ...[outcome.status, endedAt, errorMessage, success?.checkpoint.step ?? null],
          success?.untrained ? JSON.stringify(success.untrained) : null,
          id,
        );
        if (ended === 0) return false;
        if (outcome.status === 'succeeded' && outcome.untrained === null) {
          insertCheckpoint(database, outcome.checkpoint);
          database.run(
            'UPDATE models SET last_step = max(last_step, ?) WHERE id = ?',
            ...[outcome.checkpoint.step, outcome.checkpoint.modelId],
          );
        }
        insertEvent(database, id, event);
        forgetRuns(database, id);
        return true;
      });
    },

    async appendEvent(jobId: string, event: TrainingEvent): Promise<void> {
      database.transaction(() => {
        insertEvent(database, jobId, event);
        if (event.type === 'gradient_step') forgetRuns(database, jobId);
      });
    },

    async events(jobId: string, page: PageRequest): Promise<StoredPage<TrainingEvent>> {
      return readPage(
        database,
        toEvent,
        { table: 'events', order: 'sequence', tenant: { column: 'job_id', id: jobId } },
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

function forgetRuns(database: SqliteDatabase, jobId: string): void {
  database.run('DELETE FROM job_runs WHERE job_id = ?', jobId);
}

function insertEvent(database: SqliteDatabase, jobId: string, event: TrainingEvent): void {
  database.run(
    'INSERT INTO events (id, job_id, type, data) VALUES (?, ?, ?, ?)',
    ...[event.id, jobId, event.type, JSON.stringify(event.data)],
  );
}
