import type { z } from 'zod';
import * as contract from '../../contract/index.ts';

/** An endpoint as the OpenAPI document tells of it. */
export interface Operation {
  method: 'get' | 'post' | 'delete';
  path: string;
  summary: string;
  tag: string;
  body?: z.ZodType;
  /** Media type of the body; JSON unless said. */
  bodyType?: string;
  query?: z.ZodObject;
  headers?: { name: string; description: string }[];
  response: z.ZodType;
  /** A second answer, chosen by the request. */
  stream?: { schema: z.ZodType; description: string };
  errors: number[];
}

const idempotencyKey = {
  name: 'Idempotency-Key',
  description:
    'A repeat with the same key and body gets the first answer, also after a restart; with another body 409. Keys live as long as the model.',
};
const lastEventId = {
  name: 'Last-Event-ID',
  description: 'Id of the last event seen: the stream goes on after it.',
};
const keyed = { headers: [idempotencyKey] };

const chatCompletion: Omit<Operation, 'path'> = {
  method: 'post',
  summary: 'Create Chat Completion',
  tag: 'inference',
  body: contract.chatCompletionRequestSchema,
  response: contract.chatCompletionSchema,
  stream: {
    schema: contract.chatCompletionChunkSchema,
    description: 'With stream: true, chunks as server-sent events, ended by "data: [DONE]".',
  },
  errors: [400, 404, 413, 422, 503],
};

const model = '/v1/preview/models/{model_id}';
const job = '/v1/preview/training-jobs/{job_id}';

/** Every operation of the service, in the order of the interface's own table; a test holds it against the routes. */
export const operations: readonly Operation[] = [
  { ...chatCompletion, path: '/v1/chat/completions' },
  { ...chatCompletion, path: '/v1/chat/completions/' },
  {
    ...{ method: 'post', path: '/v1/preview/models', summary: 'Create Model', tag: 'models', ...keyed },
    body: contract.createModelRequestSchema,
    response: contract.modelSchema,
    errors: [409, 413, 422],
  },
  {
    ...{ method: 'get', path: '/v1/preview/models', summary: 'List Models', tag: 'models' },
    query: contract.orderedPageQuerySchema,
    response: contract.modelPageSchema,
    errors: [422],
  },
  {
    ...{ method: 'get', path: model, summary: 'Get Model', tag: 'models' },
    response: contract.modelSchema,
    errors: [404],
  },
  {
    ...{ method: 'delete', path: model, summary: 'Delete Model', tag: 'models' },
    response: contract.deleteModelResponseSchema,
    errors: [404, 409],
  },
  {
    ...{ method: 'get', path: `${model}/checkpoints`, summary: 'List Model Checkpoints', tag: 'models' },
    query: contract.orderedPageQuerySchema,
    response: contract.checkpointPageSchema,
    errors: [404, 422],
  },
  {
    ...{ method: 'delete', path: `${model}/checkpoints`, summary: 'Delete Model Checkpoints', tag: 'models' },
    body: contract.deleteCheckpointsRequestSchema,
    response: contract.deleteCheckpointsResponseSchema,
    errors: [404, 409, 422],
  },
  {
    ...{ method: 'post', path: `${model}/log`, summary: 'Log', tag: 'models', ...keyed },
    body: contract.logRequestSchema,
    response: contract.logResponseSchema,
    errors: [404, 409, 413, 422],
  },
  {
    ...{
      method: 'post',
      path: '/v1/preview/uploads',
      summary: 'Upload training data',
      tag: 'training',
      ...keyed,
    },
    body: contract.sftExampleSchema,
    bodyType: 'application/jsonl',
    response: contract.uploadSchema,
    errors: [409, 413, 422],
  },
  {
    ...{ method: 'post', path: '/v1/preview/sft-training-jobs', summary: 'Create Sft Training Job' },
    ...{ tag: 'training', ...keyed },
    body: contract.createSftTrainingJobRequestSchema,
    response: contract.createJobResponseSchema,
    errors: [404, 409, 413, 422],
  },
  {
    ...{ method: 'post', path: '/v1/preview/training-jobs', summary: 'Create Rl Training Job' },
    ...{ tag: 'training', ...keyed },
    body: contract.createTrainingJobRequestSchema,
    response: contract.createJobResponseSchema,
    errors: [404, 409, 413, 422],
  },
  {
    ...{ method: 'get', path: job, summary: 'Get Training Job', tag: 'training' },
    response: contract.trainingJobSchema,
    errors: [404],
  },
  {
    ...{ method: 'get', path: `${job}/events`, summary: 'Get Training Job Events', tag: 'training' },
    query: contract.pageQuerySchema,
    headers: [lastEventId],
    response: contract.trainingEventPageSchema,
    stream: {
      schema: contract.trainingEventSchema,
      description: 'With Accept: text/event-stream, every event as it comes, until the last.',
    },
    errors: [404, 422],
  },
  {
    ...{ method: 'post', path: `${job}/cancel`, summary: 'Cancel Training Job', tag: 'training', ...keyed },
    response: contract.trainingJobSchema,
    errors: [404, 409],
  },
  {
    ...{ method: 'get', path: '/v1/health', summary: 'Health Check', tag: 'health' },
    response: contract.healthSchema,
    errors: [],
  },
  {
    ...{ method: 'get', path: '/v1/system-check', summary: 'System Check', tag: 'health' },
    response: contract.systemCheckSchema,
    errors: [503],
  },
  {
    ...{ method: 'get', path: '/v1/models', summary: 'List inference models', tag: 'inference' },
    response: contract.inferenceModelListSchema,
    errors: [],
  },
];
