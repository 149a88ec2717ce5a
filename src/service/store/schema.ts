/**
 * The tables, as steps from one version to the next (`PRAGMA user_version`). A step that was released is never
 * changed; what must change becomes a further step.
 */
export const migrations: readonly string[] = [
  `
  CREATE TABLE models (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    entity TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    base_model TEXT NOT NULL,
    created_at TEXT NOT NULL,
    last_step INTEGER NOT NULL,
    UNIQUE (entity, project, name)
  ) STRICT;
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
    upload_sha256 TEXT
  ) STRICT;
  CREATE INDEX unfinished_jobs ON jobs (sequence) WHERE status IN ('queued', 'running');
  CREATE INDEX jobs_of_model ON jobs (model_id);
  CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    data TEXT NOT NULL
  ) STRICT;
  CREATE INDEX events_of_job ON events (job_id, sequence);
  CREATE TABLE constraints (hash TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE uploads (
    sha256 TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    examples INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
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
  CREATE TABLE idempotency_keys (
    key TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    model_id TEXT,
    status INTEGER,
    body TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_keys_of_model ON idempotency_keys (model_id);
  `,
  `
  ALTER TABLE models ADD COLUMN forked_from_model TEXT;
  ALTER TABLE models ADD COLUMN forked_from_step INTEGER;
  `,
  `
  ALTER TABLE jobs ADD COLUMN traceparent TEXT;
  `,
  `
  CREATE INDEX models_of_entity ON models (entity, sequence);
  CREATE TABLE entity_uploads (
    entity TEXT NOT NULL,
    sha256 TEXT NOT NULL REFERENCES uploads (sha256) ON DELETE CASCADE,
    PRIMARY KEY (entity, sha256)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE jobs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
  DROP INDEX unfinished_jobs;
  -- Holds all that the queue asks of jobs that wait, whose configs may be long.
  CREATE INDEX unfinished_jobs ON jobs (model_id, sequence, status, id, tenant)
    WHERE status IN ('queued', 'running');
  CREATE INDEX ended_jobs ON jobs (ended_at) WHERE ended_at IS NOT NULL;
  -- Of jobs that run, and of those whose runs were cut short with the process.
  CREATE TABLE job_runs (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    is_open INTEGER NOT NULL,
    lost INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Models whose own row is gone, and of whose other rows some may be left.
  CREATE TABLE deleted_models (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
  -- When it was last used, in milliseconds since 1970. What was there before is used now.
  ALTER TABLE uploads ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
  UPDATE uploads SET used_at = unixepoch() * 1000;
  CREATE INDEX uploads_by_use ON uploads (used_at);
  CREATE INDEX uploads_in_use ON jobs (upload_sha256) WHERE status IN ('queued', 'running');
  -- When it was reserved.
  ALTER TABLE idempotency_keys ADD COLUMN reserved_at INTEGER NOT NULL DEFAULT 0;
  UPDATE idempotency_keys SET reserved_at = unixepoch() * 1000;
  CREATE INDEX idempotency_keys_without_model ON idempotency_keys (reserved_at) WHERE model_id IS NULL;
  `,
  `
  -- What replies of an entity were sampled under; '' for keys of none. The older table, constraints, holds what was
  -- kept before an entity had its own: nobody knows whose it is, so that all find it.
  CREATE TABLE entity_constraints (
    entity TEXT NOT NULL,
    hash TEXT NOT NULL,
    -- In milliseconds since 1970, to a day.
    used_at INTEGER NOT NULL,
    -- What it counts for.
    room INTEGER NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (entity, hash)
  ) STRICT;
  CREATE INDEX constraints_by_hash ON entity_constraints (hash);
  CREATE INDEX constraints_by_use ON entity_constraints (entity, used_at, room);
  `,
  `
  -- Why a job took no gradient step, as JSON.
  ALTER TABLE jobs ADD COLUMN untrained TEXT;
  `,
];
