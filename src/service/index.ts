import '../platform/check-node.ts';

export type { ServiceLimits } from './admission/service-limits.ts';
export { createApp } from './app.ts';
export type { BodyLimits } from './bodies/bodies.ts';
export type { ServiceContext } from './context.ts';
export { RequestValidationError, ServiceError } from './errors.ts';
export { openKeys } from './open-service.ts';
export { type RunningService, type StartServiceOptions, startService } from './start-service.ts';
export { type Backup, backUp } from './store/backup.ts';
export { checkData, type DataReport } from './store/check-data.ts';
export { type KeyRecord, KeyStore } from './store/key-store.ts';
export { type Rebuilt, rebuildRecords } from './store/rebuild.ts';
export type { LogEntry, ServiceLog } from './telemetry.ts';
export type { TrainingDataOptions } from './training-data/sources.ts';
