import type { DatabaseSync } from '../../platform/sqlite.ts';
import { ServiceError } from '../errors.ts';

interface Schema {
  /** What the file contains, for errors. */
  what: string;
  /** Schema version (`PRAGMA user_version`). Raise it with every change of `tables`. */
  version: number;
  tables: string;
}

/**
 * Creates the tables in an empty file. Two processes may do so at the same time.
 *
 * @throws ServiceError `data_folder_too_new` or `data_folder_too_old` if the file has another schema
 * version.
 */
export function prepareSchema(database: DatabaseSync, { what, version, tables }: Schema): void {
  const find = () => Number(database.prepare('PRAGMA user_version').get()?.user_version ?? 0);
  if (find() === version) return;
  database.exec('BEGIN IMMEDIATE');
  try {
    // Another process may have created the tables meanwhile.
    const found = find();
    const isEmpty = database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
    if (found !== version && !isEmpty) throw otherSchema(what, found, version);
    database.exec(isEmpty ? `${tables}; PRAGMA user_version = ${version}; COMMIT` : 'COMMIT');
  } catch (error) {
    // SQLite itself ends a transaction when the disk is full or broken.
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/**
 * Refuses what our tables do not have, such as a trigger, which would run with each of our statements.
 * @throws ServiceError `data_folder_damaged` that names it.
 */
export function checkObjects(database: DatabaseSync, { what, tables }: Schema): void {
  const expected = new Set(
    [...tables.matchAll(/CREATE (TABLE|INDEX) (\w+)/g)].map(
      ([, type = '', name]) => `${type.toLowerCase()} ${name}`,
    ),
  );
  for (const { type, name } of database.prepare('SELECT type, name FROM sqlite_schema').all())
    if (!expected.has(`${type} ${name}`) && !String(name).startsWith('sqlite_'))
      throw new ServiceError(
        500,
        'data_folder_damaged',
        `${what} of the data folder has the ${type} ${JSON.stringify(name)}, which martingale did not make. It may come from somebody else: do not use the folder, or drop it with the program sqlite3.`,
      );
}

function otherSchema(what: string, found: number, version: number): ServiceError {
  const isNewer = found > version;
  const remedy = isNewer ? 'Update martingale.' : 'Choose another data folder.';
  return new ServiceError(
    500,
    isNewer ? 'data_folder_too_new' : 'data_folder_too_old',
    `${what} of the data folder has schema version ${found}; this martingale reads version ${version}. ${remedy}`,
  );
}

export const storeSchema: Schema = {
  what: 'The database',
  version: 11,
  tables: `
  CREATE TABLE models (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    entity TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    base_model TEXT NOT NULL,
    created_at TEXT NOT NULL,
    last_step INTEGER NOT NULL,
    forked_from_model TEXT,
    forked_from_step INTEGER,
    UNIQUE (entity, project, name)
  ) STRICT;
  CREATE INDEX models_of_entity ON models (entity, sequence);
  -- Models whose own row is gone while some of their other rows may be left.
  CREATE TABLE deleted_models (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
  CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY,
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    step INTEGER NOT NULL,
    folder TEXT,
    metrics TEXT NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (model_id, step)
  ) STRICT;

  CREATE TABLE jobs (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT,
    error_message TEXT,
    resolved_config TEXT NOT NULL,
    step INTEGER,
    upload_sha256 TEXT,
    -- Ids of stored groups, as JSON, until the job has ended.
    group_ids TEXT,
    traceparent TEXT,
    tenant TEXT NOT NULL,
    -- Why a job took no gradient step, as JSON.
    untrained TEXT
  ) STRICT;
  CREATE INDEX jobs_of_model ON jobs (model_id);
  -- Covers what the queue asks of waiting jobs, whose configs may be long.
  CREATE INDEX unfinished_jobs ON jobs (model_id, sequence, status, id, tenant)
    WHERE status IN ('queued', 'running');
  CREATE INDEX ended_jobs ON jobs (ended_at) WHERE ended_at IS NOT NULL;
  CREATE INDEX uploads_in_use ON jobs (upload_sha256) WHERE status IN ('queued', 'running');
  -- Running jobs, and jobs whose runs ended with the process. boot, memory_kills: of the machine when the run began;
  -- open_ms: how long it has run; the others: see LostRuns.
  CREATE TABLE job_runs (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    is_open INTEGER NOT NULL,
    boot TEXT NOT NULL,
    memory_kills INTEGER,
    open_ms INTEGER NOT NULL,
    lost REAL NOT NULL,
    ends INTEGER NOT NULL,
    memory_ends INTEGER NOT NULL,
    ran_ms INTEGER,
    alike INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    data TEXT NOT NULL
  ) STRICT;
  CREATE INDEX events_of_job ON events (job_id, sequence);

  -- used_at: last use, in milliseconds since 1970.
  CREATE TABLE uploads (
    sha256 TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    examples INTEGER NOT NULL,
    used_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX uploads_by_use ON uploads (used_at);
  CREATE TABLE entity_uploads (
    entity TEXT NOT NULL,
    sha256 TEXT NOT NULL REFERENCES uploads (sha256) ON DELETE CASCADE,
    PRIMARY KEY (entity, sha256)
  ) STRICT, WITHOUT ROWID;
  -- member_bytes: of the group's JSON at the beginning of its file; used_at: when it was last sent or named, in
  -- milliseconds since 1970; is_named: whether a job or log has named it.
  CREATE TABLE groups (
    id TEXT PRIMARY KEY,
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    member_bytes INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    trajectories INTEGER NOT NULL,
    sampled_tokens INTEGER NOT NULL,
    trainable_tokens INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    is_named INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX groups_of_model ON groups (model_id);
  CREATE INDEX groups_by_use ON groups (used_at);
  CREATE INDEX waiting_groups ON groups (tenant) WHERE is_named = 0;
  CREATE TABLE logs (
    id TEXT PRIMARY KEY,
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    split TEXT NOT NULL,
    offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    groups INTEGER NOT NULL,
    trajectories INTEGER NOT NULL,
    created_at TEXT NOT NULL
  ) STRICT;
  CREATE INDEX logs_of_split ON logs (model_id, split);

  -- What replies of an entity were sampled under; '' for keys of no entity. used_at: milliseconds since 1970, to a day;
  -- room: the characters that it counts for.
  CREATE TABLE entity_constraints (
    entity TEXT NOT NULL,
    hash TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    room INTEGER NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (entity, hash)
  ) STRICT;
  CREATE INDEX constraints_by_hash ON entity_constraints (hash);
  CREATE INDEX constraints_by_use ON entity_constraints (entity, used_at, room);

  CREATE TABLE idempotency_keys (
    key TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    model_id TEXT,
    status INTEGER,
    body TEXT,
    reserved_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_keys_of_model ON idempotency_keys (model_id);
  CREATE INDEX idempotency_keys_without_model ON idempotency_keys (reserved_at) WHERE model_id IS NULL;
  `,
};

export const keySchema: Schema = {
  what: 'The key file',
  version: 4,
  // number: order of creation, since clocks may jump.
  tables: `
  CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    hash BLOB NOT NULL,
    entity TEXT,
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    revoked_at TEXT
  ) STRICT, WITHOUT ROWID;
  `,
};
