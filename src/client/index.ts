import '../platform/check-node.ts';

export { OptionError } from '../util/option-error.ts';
export * from './client.ts';
export {
  type CallFacts,
  type ClientLimits,
  isRequestError,
  RequestError,
  type RequestErrorCode,
  type RequestErrorDetails,
} from './errors.ts';
export type { ClientOptions, Dialect } from './options.ts';
export type { PageList } from './parse.ts';
export type {
  ComponentCheck,
  ReportedSystemCheck,
  ReportedTrainingEvent,
  ReportedTrainingJob,
} from './reported.ts';
export type { CallOptions, IdempotentCallOptions, ListOptions, OrderedListOptions } from './requester.ts';
export type { ChatCompletions, StreamedChatRequest, WholeChatRequest } from './resources/chat.ts';
export type { CheckpointFile, Checkpoints } from './resources/checkpoints.ts';
export type { FollowOptions } from './resources/follow-events.ts';
export type { InferenceModels, ModelDeletion, Models } from './resources/models.ts';
export type { SftTrainingJobs, TrainingJobs } from './resources/training-jobs.ts';
export type { Uploads } from './resources/uploads.ts';
export { mayHaveActed, type RetryNotice } from './retry.ts';
export { isContextLengthError } from './status-error.ts';
