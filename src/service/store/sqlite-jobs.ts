import { jobStatusSchema, type TrainingEvent } from '../../contract/index.ts';
import { countEnd, machineSigns } from './lost-runs.ts';
import { integer, readPage, type SqliteDatabase, text } from './sqlite-database.ts';
import { nameGroups } from './sqlite-groups.ts';
import {
  hasModel,
  insertCheckpoint,
  toEvent,
  toJob,
  toLostRuns,
  toWaitingJob,
  unfinished,
} from './sqlite-rows.ts';
import type { JobStore } from './store.ts';

/** Training jobs and their events. */
export function sqliteJobs(database: SqliteDatabase): JobStore {
  return {
    async insertJob(job) {
      return database.transaction(() => {
        if (!hasModel(database, job.modelId)) return false;
        if (job.groupIds && !nameGroups(database, job.modelId, job.groupIds)) return false;
        const row = {
          id: job.id,
          model_id: job.modelId,
          kind: job.kind,
          status: job.status,
          created_at: job.createdAt,
          resolved_config: JSON.stringify(job.resolvedConfig),
          upload_sha256: job.uploadSha256,
          group_ids: job.groupIds && JSON.stringify(job.groupIds),
          traceparent: job.traceparent,
          tenant: job.tenant,
        };
        database.insert('jobs', row, 'ON CONFLICT (id) DO NOTHING');
        return true;
      });
    },

    async job(id) {
      return database.find(toJob, 'SELECT * FROM jobs WHERE id = ?', id);
    },

    async jobsOf(modelId, page) {
      const parent = { column: 'model_id', id: modelId } as const;
      return readPage(database, toJob, { table: 'jobs', order: 'sequence', parent }, page);
    },

    async hasJob(id) {
      return database.one('SELECT 1 FROM jobs WHERE id = ?', id) !== undefined;
    },

    async firstJobs() {
      return database
        .all(
          `SELECT first.*, coalesce(lost, 0) AS lost FROM
             (SELECT min(sequence) AS sequence, id, model_id FROM jobs WHERE ${unfinished} GROUP BY model_id) first
           LEFT JOIN job_runs ON job_id = id ORDER BY sequence`,
        )
        .map(toWaitingJob);
    },

    async newestJob() {
      return database.number('SELECT max(sequence) FROM jobs');
    },

    async unfinishedJobIds() {
      return database.all(`SELECT id FROM jobs WHERE ${unfinished}`).map((row) => text(row, 'id'));
    },

    async unfinishedJobsOf(modelId) {
      return database
        .all(`SELECT id, status FROM jobs WHERE model_id = ? AND ${unfinished} ORDER BY sequence`, modelId)
        .map((row) => ({ id: text(row, 'id'), status: jobStatusSchema.parse(text(row, 'status')) }));
    },

    async countUnfinishedJobs({ modelId, tenant }) {
      const none = { all: 0, ofModel: 0, ofTenant: 0 };
      const counts = database.find(
        (row) => ({
          all: integer(row, 'count'),
          ofModel: integer(row, 'of_model'),
          ofTenant: integer(row, 'of_tenant'),
        }),
        `SELECT count(*) AS count, coalesce(sum(model_id = ?), 0) AS of_model, coalesce(sum(tenant = ?), 0) AS of_tenant
         FROM jobs WHERE ${unfinished}`,
        modelId,
        tenant,
      );
      return counts ?? none;
    },

    async countJobsEnded(since) {
      return database.number('SELECT count(*) FROM jobs WHERE ended_at > ?', since);
    },

    async startJob(id, startedAt, event) {
      database.transaction(() => {
        // A job that runs again began when it first did.
        database.run(
          "UPDATE jobs SET status = 'running', started_at = coalesce(started_at, ?) WHERE id = ?",
          startedAt,
          id,
        );
        if (event) insertEvent(database, id, event);
      });
    },

    async beginRun(id) {
      const { boot, memoryKills } = machineSigns();
      const opened = { is_open: 1, boot, memory_kills: memoryKills, open_ms: 0 };
      const reopen = `ON CONFLICT (job_id) DO UPDATE SET is_open = 1, boot = excluded.boot,
        memory_kills = excluded.memory_kills, open_ms = 0`;
      const none = { lost: 0, ends: 0, memory_ends: 0, ran_ms: null, alike: 0 };
      database.insert('job_runs', { job_id: id, ...opened, ...none }, reopen);
    },

    async noteRun(id, ranMs) {
      database.run('UPDATE job_runs SET open_ms = ? WHERE job_id = ?', Math.round(ranMs), id);
    },

    async lostRuns(id) {
      return database.find(toLostRuns, 'SELECT * FROM job_runs WHERE job_id = ?', id);
    },

    async closeRuns() {
      database.run('UPDATE job_runs SET is_open = 0 WHERE is_open = 1');
    },

    async requeueJob(id) {
      database.transaction(() => {
        database.run('UPDATE job_runs SET is_open = 0 WHERE job_id = ?', id);
        database.run("UPDATE jobs SET status = 'queued' WHERE id = ? AND status = 'running'", id);
      });
    },

    async requeueLostJobs() {
      database.transaction(() => {
        const now = machineSigns();
        for (const row of database.all('SELECT * FROM job_runs WHERE is_open = 1')) {
          const run = {
            boot: text(row, 'boot'),
            memoryKills: row.memory_kills === null ? null : integer(row, 'memory_kills'),
            ranMs: integer(row, 'open_ms'),
          };
          const { lost, ends, memoryEnds, ranMs, alike } = countEnd(toLostRuns(row), run, now);
          database.run(
            `UPDATE job_runs SET is_open = 0, lost = ?, ends = ?, memory_ends = ?, ran_ms = ?, alike = ?
             WHERE job_id = ?`,
            ...[lost, ends, memoryEnds, ranMs, alike, text(row, 'job_id')],
          );
        }
        database.run(`UPDATE jobs SET status = 'queued' WHERE ${unfinished} AND status = 'running'`);
      });
    },

    async finishJob(id, endedAt, outcome, event) {
      return database.transaction(() => {
        const success = outcome.status === 'succeeded' ? outcome : null;
        const ended = database.run(
          `UPDATE jobs SET status = ?, ended_at = ?, error_message = ?, step = ?, untrained = ?, group_ids = NULL
           WHERE id = ? AND ${unfinished}`,
          outcome.status,
          endedAt,
          outcome.status === 'succeeded' ? null : outcome.errorMessage,
          success?.checkpoint.step ?? null,
          success?.untrained ? JSON.stringify(success.untrained) : null,
          id,
        );
        if (ended === 0) return false;
        if (success?.untrained === null) {
          const { step, modelId } = success.checkpoint;
          insertCheckpoint(database, success.checkpoint);
          database.run('UPDATE models SET last_step = max(last_step, ?) WHERE id = ?', step, modelId);
        }
        insertEvent(database, id, event);
        deleteRuns(database, id);
        return true;
      });
    },

    async appendEvent(jobId, event) {
      database.transaction(() => {
        insertEvent(database, jobId, event);
        if (event.type === 'gradient_step') deleteRuns(database, jobId);
      });
    },

    async events(jobId, page) {
      const parent = { column: 'job_id', id: jobId } as const;
      return readPage(database, toEvent, { table: 'events', order: 'sequence', parent }, page);
    },

    async countEvents(jobId, type) {
      return database.number('SELECT count(*) FROM events WHERE job_id = ? AND type = ?', jobId, type);
    },
  };
}

function deleteRuns(database: SqliteDatabase, jobId: string): void {
  database.run('DELETE FROM job_runs WHERE job_id = ?', jobId);
}

function insertEvent(database: SqliteDatabase, jobId: string, { id, type, data }: TrainingEvent): void {
  database.insert('events', { id, job_id: jobId, type, data: JSON.stringify(data) });
}
