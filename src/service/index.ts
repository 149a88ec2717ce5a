export { createApp } from './app.ts';
export type { BodyLimits, ServiceContext } from './context.ts';
export { RequestValidationError, ServiceError } from './errors.ts';
export type { LogEntry, ServiceLog } from './log.ts';
export { type RunningService, type StartServiceOptions, startService } from './start-service.ts';
