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
];
