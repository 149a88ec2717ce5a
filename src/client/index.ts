import '../platform/check-node.ts';

export { OptionError } from '../util/option-error.ts';
export * from './client.ts';
export type { Dialect } from './dialect.ts';
export * from './errors.ts';
export type { ClientLimits } from './limits.ts';
export type { ClientOptions } from './options.ts';
export type { PageList } from './page-list.ts';
export type {
  ComponentCheck,
  ReportedSystemCheck,
  ReportedTrainingEvent,
  ReportedTrainingJob,
} from './reported.ts';
export type { CallOptions, IdempotentCallOptions, ListOptions } from './requester.ts';
export type { ChatCompletions, StreamedChatRequest, WholeChatRequest } from './resources/chat.ts';
export type { CheckpointFile } from './resources/checkpoint-file.ts';
export type { Checkpoints, ListCheckpointsOptions } from './resources/checkpoints.ts';
export type { FollowOptions } from './resources/follow-events.ts';
export type { InferenceModels } from './resources/inference-models.ts';
export type { Models } from './resources/models.ts';
export type { SftTrainingJobs } from './resources/sft-training-jobs.ts';
export type { TrainingJobs } from './resources/training-jobs.ts';
export type { Uploads } from './resources/uploads.ts';
export { mayHaveActed, type RetryNotice } from './retry.ts';
export { isContextLengthError } from './status-error.ts';
