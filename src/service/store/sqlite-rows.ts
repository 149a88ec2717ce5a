import { z } from 'zod';
import {
  jobKindSchema,
  jobStatusSchema,
  type TrainingEvent,
  trainingEventSchema,
  untrainedSchema,
} from '../../contract/index.ts';
import { damagedRecord, ServiceError } from '../errors.ts';
import type { LostRuns } from './lost-runs.ts';
import { integer, type Row, type SqliteDatabase, size, text, textOrNull } from './sqlite-database.ts';
import type {
  CheckpointRecord,
  IdempotencyRecord,
  JobRecord,
  LogRecord,
  ModelRecord,
  WaitingJob,
} from './store.ts';

const numbers = z.record(z.string(), z.number());
const anything = z.record(z.string(), z.unknown());

const integerOrNull = (row: Row, column: string) => (row[column] === null ? null : integer(row, column));

/** A value that a column's text was made of. @throws ServiceError `data_folder_damaged` */
function valid<Value>(row: Row, column: string, schema: z.ZodType<Value>, read: () => unknown): Value {
  try {
    return schema.parse(read());
  } catch (error) {
    if (ServiceError.isInstance(error)) throw error;
    throw damagedRecord(`its ${column}`, row[column]);
  }
}

const checked = <Value>(row: Row, column: string, schema: z.ZodType<Value>): Value =>
  valid(row, column, schema, () => text(row, column));

const parsed = <Value>(row: Row, column: string, schema: z.ZodType<Value>): Value =>
  valid(row, column, schema, () => JSON.parse(text(row, column)));

export const toModel = (row: Row): ModelRecord => ({
  id: text(row, 'id'),
  entity: text(row, 'entity'),
  project: text(row, 'project'),
  name: text(row, 'name'),
  baseModel: text(row, 'base_model'),
  createdAt: text(row, 'created_at'),
  lastStep: integer(row, 'last_step'),
  forkedFrom:
    row.forked_from_model === null
      ? null
      : { modelId: text(row, 'forked_from_model'), step: integer(row, 'forked_from_step') },
});

export const toCheckpoint = (row: Row): CheckpointRecord => ({
  id: text(row, 'id'),
  modelId: text(row, 'model_id'),
  step: integer(row, 'step'),
  folder: textOrNull(row, 'folder'),
  metrics: parsed(row, 'metrics', numbers),
  createdAt: text(row, 'created_at'),
});

export const toJob = (row: Row): JobRecord => ({
  id: text(row, 'id'),
  modelId: text(row, 'model_id'),
  kind: checked(row, 'kind', jobKindSchema),
  status: checked(row, 'status', jobStatusSchema),
  createdAt: text(row, 'created_at'),
  startedAt: textOrNull(row, 'started_at'),
  endedAt: textOrNull(row, 'ended_at'),
  errorMessage: textOrNull(row, 'error_message'),
  resolvedConfig: parsed(row, 'resolved_config', anything),
  step: integerOrNull(row, 'step'),
  untrained: row.untrained === null ? null : parsed(row, 'untrained', untrainedSchema),
  uploadSha256: textOrNull(row, 'upload_sha256'),
  groupIds: row.group_ids === null ? null : parsed(row, 'group_ids', z.array(z.string())),
  traceparent: textOrNull(row, 'traceparent'),
  tenant: text(row, 'tenant'),
});

export const toWaitingJob = (row: Row): WaitingJob => ({
  id: text(row, 'id'),
  modelId: text(row, 'model_id'),
  sequence: integer(row, 'sequence'),
  lostRuns: integer(row, 'lost'),
});

export const toLostRuns = (row: Row): LostRuns => ({
  lost: integer(row, 'lost'),
  ends: integer(row, 'ends'),
  memoryEnds: integer(row, 'memory_ends'),
  ranMs: integerOrNull(row, 'ran_ms'),
  alike: integer(row, 'alike'),
});

export const toEvent = (row: Row): TrainingEvent =>
  valid(row, 'data', trainingEventSchema, () => ({
    id: text(row, 'id'),
    type: text(row, 'type'),
    data: JSON.parse(text(row, 'data')),
  }));

export const toLog = (row: Row): LogRecord => ({
  id: text(row, 'id'),
  modelId: text(row, 'model_id'),
  split: text(row, 'split'),
  offset: size(row, 'offset'),
  bytes: size(row, 'bytes'),
  groups: integer(row, 'groups'),
  trajectories: integer(row, 'trajectories'),
  createdAt: text(row, 'created_at'),
});

export const toIdempotencyRecord = (row: Row): IdempotencyRecord => ({
  key: text(row, 'key'),
  fingerprint: text(row, 'fingerprint'),
  resourceId: text(row, 'resource_id'),
  answer:
    row.status === null ? null : { status: integer(row, 'status'), body: parsed(row, 'body', z.unknown()) },
});

/** Condition on `jobs`: queued or running. */
export const unfinished = "status IN ('queued', 'running')";

export function hasModel(database: SqliteDatabase, id: string): boolean {
  return database.one('SELECT id FROM models WHERE id = ?', id) !== undefined;
}

export function checkpointsOf(database: SqliteDatabase, modelId: string): CheckpointRecord[] {
  return database
    .all('SELECT * FROM checkpoints WHERE model_id = ? ORDER BY step', modelId)
    .map(toCheckpoint);
}

export function insertCheckpoint(database: SqliteDatabase, checkpoint: CheckpointRecord): void {
  database.insert('checkpoints', {
    id: checkpoint.id,
    model_id: checkpoint.modelId,
    step: checkpoint.step,
    folder: checkpoint.folder,
    metrics: JSON.stringify(checkpoint.metrics),
    created_at: checkpoint.createdAt,
  });
}
