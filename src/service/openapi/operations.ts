import { z } from 'zod';
import * as contract from '../../contract/index.ts';
import { examples } from './examples.ts';

/** A request's body: JSON unless `type` names another media type. */
interface Body {
  schema: z.ZodType;
  example: unknown;
  type?: string;
  /** Default true. */
  required?: boolean;
}

/** A successful answer's body. `schema` is null if it is not JSON. */
interface DocumentedAnswer {
  schema: z.ZodType | null;
  example: unknown;
  /** An alternative form that the request can choose: server-sent events of this schema. */
  stream?: { schema: z.ZodType; example: unknown; description: string };
}

/** An endpoint as the OpenAPI document describes it. */
export interface Operation {
  method: 'get' | 'post' | 'delete';
  path: string;
  summary: string;
  /** Decisions of this service that the interface leaves open. */
  description: string;
  tag: 'inference' | 'models' | 'training' | 'service';
  body?: Body;
  query?: z.ZodObject;
  /** Request headers besides the ones that every request has. */
  headers?: ('Idempotency-Key' | 'Last-Event-ID')[];
  answer: DocumentedAnswer;
  /** Error statuses besides the common ones: see `failuresOf`. */
  errors?: number[];
}

/** For operations that accept an Idempotency-Key. */
const keyed: Pick<Operation, 'headers'> = { headers: ['Idempotency-Key'] };

const model = '/v1/preview/models/{model_id}';
const job = '/v1/preview/training-jobs/{job_id}';

const chatCompletion: Omit<Operation, 'path'> = {
  method: 'post',
  summary: 'Create Chat Completion',
  description:
    'Samples replies from a base model or a checkpoint. Default model: the first base model. The answer names the sampled checkpoint with its step. `vllm_xargs` is an alias of `engine_xargs`.',
  tag: 'inference',
  body: { schema: contract.chatCompletionRequestSchema, example: examples.chatRequest },
  answer: {
    schema: contract.chatCompletionSchema,
    example: examples.chatCompletion,
    stream: {
      schema: contract.chatCompletionChunkSchema,
      example: examples.chatChunk,
      description:
        'With stream: true, chunks as server-sent events, ended by "data: [DONE]". An error after the first chunk is an event with an `error` object.',
    },
  },
  errors: [404],
};

/** All operations of the service. Routes and the OpenAPI document are built from this table. */
export const operations = {
  createChatCompletion: { ...chatCompletion, path: '/v1/chat/completions' },
  createChatCompletionSlash: { ...chatCompletion, path: '/v1/chat/completions/' },
  listBaseModels: {
    method: 'get',
    path: '/v1/preview/base-models',
    summary: 'List Base Models',
    tag: 'models',
    description: 'The values of `base_model`, the default of chat completions first.',
    answer: { schema: contract.baseModelListSchema, example: examples.baseModels },
  },
  createModel: {
    method: 'post',
    path: '/v1/preview/models',
    summary: 'Create Model',
    tag: 'models',
    ...keyed,
    description:
      'Creates a model with the weights of its base model as step 0. A name in use is a 409, unless `return_existing` requests the existing model and that has the same base model.',
    body: { schema: contract.createModelRequestSchema, example: examples.createModel },
    answer: { schema: contract.modelSchema, example: examples.model },
    errors: [409],
  },
  listModels: {
    method: 'get',
    path: '/v1/preview/models',
    summary: 'List Models',
    tag: 'models',
    description: 'An extension of this service. Oldest first.',
    query: contract.orderedPageQuerySchema,
    answer: { schema: contract.modelPageSchema, example: examples.modelPage },
  },
  getModel: {
    method: 'get',
    path: model,
    summary: 'Get Model',
    tag: 'models',
    description: 'An extension of this service.',
    answer: { schema: contract.modelSchema, example: examples.model },
    errors: [404],
  },
  deleteModel: {
    method: 'delete',
    path: model,
    summary: 'Delete Model',
    tag: 'models',
    description:
      'Deletes a model with its checkpoints, jobs, events, logs and idempotency keys. Cancels its unfinished jobs first. Forks of it are kept.',
    answer: { schema: contract.deleteModelResponseSchema, example: examples.deletedModel },
    errors: [404, 409],
  },
  forkModel: {
    method: 'post',
    path: `${model}/fork`,
    summary: 'Fork Model',
    tag: 'models',
    ...keyed,
    description:
      'An extension of this service. Creates a model whose step 0 is a copy of a checkpoint of this model: its weights and, if stored, the state of the optimizer. The source can be deleted afterwards. Names follow the rules of Create Model. The body is optional.',
    body: { schema: contract.forkModelRequestSchema, example: examples.forkModel, required: false },
    answer: { schema: contract.modelSchema, example: examples.fork },
    errors: [404, 409],
  },
  listCheckpoints: {
    method: 'get',
    path: `${model}/checkpoints`,
    summary: 'List Model Checkpoints',
    tag: 'models',
    description: 'By step. Each training job creates the next step; deleted numbers are not reused.',
    query: contract.orderedPageQuerySchema,
    answer: { schema: contract.checkpointPageSchema, example: examples.checkpointPage },
    errors: [404],
  },
  deleteCheckpoints: {
    method: 'delete',
    path: `${model}/checkpoints`,
    summary: 'Delete Model Checkpoints',
    tag: 'models',
    description:
      'The answer lists steps that do not exist. Deleting the last checkpoint of a model, or the one that an unfinished job starts from, is a 409.',
    body: { schema: contract.deleteCheckpointsRequestSchema, example: examples.deleteCheckpoints },
    answer: { schema: contract.deleteCheckpointsResponseSchema, example: examples.deletedCheckpoints },
    errors: [404, 409],
  },
  downloadCheckpoint: {
    method: 'get',
    path: `${model}/checkpoints/{step}/download`,
    summary: 'Download Checkpoint',
    description:
      "An extension of this service. A checkpoint's weights in one file that other tools can read: `Content-Disposition` has its name, `Content-Length` its size. Step 0 of a new model has the base model's weights. Ranges are not supported.",
    tag: 'models',
    answer: { schema: null, example: undefined },
    errors: [404],
  },
  log: {
    method: 'post',
    path: `${model}/log`,
    summary: 'Log',
    tag: 'models',
    ...keyed,
    description:
      'Stores trajectories with a model without training on them: as JSON lines in models/<id>/logs/<split>.jsonl.gz of the data folder.',
    body: { schema: contract.logRequestSchema, example: examples.log },
    answer: { schema: contract.logResponseSchema, example: examples.logged },
    errors: [404, 409],
  },
  createGroup: {
    method: 'post',
    path: `${model}/groups`,
    summary: 'Create Group',
    tag: 'training',
    ...keyed,
    description:
      'An extension of this service. Stores one group of trajectories for jobs and logs of the model, which then name it in `groups`. It is checked as a job would check it, and tokenized: what cannot be trained on is refused here. Its choices may have `added_prompt_token_ids` in place of `prompt_token_ids`. Equal content is the same group. It is kept while an unfinished job needs it, for 24 hours until it is named, for an hour after it was last named, and at most as long as its model.',
    body: { schema: contract.trajectoryGroupSchema, example: examples.group },
    answer: { schema: contract.storedGroupSchema, example: examples.storedGroup },
    errors: [404, 409],
  },
  upload: {
    method: 'post',
    path: '/v1/preview/uploads',
    summary: 'Upload training data',
    tag: 'training',
    ...keyed,
    description:
      'An extension of this service. JSON lines with one conversation each, as deployed clients write them to train.jsonl or trajectories.jsonl. All lines are checked before the upload is stored. Equal data is stored once, while an unfinished job needs it and for 30 days after its last use.',
    body: {
      schema: contract.sftExampleSchema,
      example: examples.sftExample,
      type: 'application/jsonl',
    },
    answer: { schema: contract.uploadSchema, example: examples.upload },
    errors: [409],
  },
  createSftJob: {
    method: 'post',
    path: '/v1/preview/sft-training-jobs',
    summary: 'Create Sft Training Job',
    tag: 'training',
    ...keyed,
    description:
      '`training_data_url` is the `url` of an upload (`upload:sha256-...`), or a `file:` or `https:` URL in a folder or on a host that the operator has allowed. A `file:` URL names a file of JSON lines, or a folder with a train.jsonl or trajectories.jsonl; the `num_trajectories` of a metadata.json in it must equal the number of lines. The data is fetched, checked and stored before the job is accepted.',
    body: { schema: contract.createSftTrainingJobRequestSchema, example: examples.createSftJob },
    answer: { schema: contract.createJobResponseSchema, example: examples.createdJob },
    errors: [404, 409],
  },
  createRlJob: {
    method: 'post',
    path: '/v1/preview/training-jobs',
    summary: 'Create Rl Training Job',
    tag: 'training',
    ...keyed,
    description:
      "Trains a model on groups of trajectories by reinforcement learning and creates its next checkpoint. Jobs run one at a time: models alternate, and a model's jobs run in their order. `kimi_k2_tau` is an alias of `vendor_k2_tau`.",
    body: { schema: contract.createTrainingJobRequestSchema, example: examples.createRlJob },
    answer: { schema: contract.createJobResponseSchema, example: examples.createdJob },
    errors: [404, 409],
  },
  getJob: {
    method: 'get',
    path: job,
    summary: 'Get Training Job',
    tag: 'training',
    description: 'A training job of either kind. Fields other than `id` are an extension of this service.',
    answer: { schema: contract.trainingJobSchema, example: examples.job },
    errors: [404],
  },
  listJobs: {
    method: 'get',
    path: `${model}/training-jobs`,
    summary: 'List Training Jobs',
    tag: 'training',
    description: 'An extension of this service. The jobs of a model, of either kind, oldest first.',
    query: contract.orderedPageQuerySchema,
    answer: { schema: contract.trainingJobPageSchema, example: examples.jobPage },
    errors: [404],
  },
  listTokens: {
    method: 'get',
    path: `${job}/tokens`,
    summary: 'List Trained Tokens',
    tag: 'training',
    description:
      'An extension of this service. What a reinforcement-learning job found of each sampled token: its log-probability under the weights before the update, and whether its loss was clipped. Known for the newest jobs (64 MiB, about 13 million tokens) until the service restarts; otherwise a 404.',
    query: contract.pageQuerySchema,
    answer: { schema: contract.trajectoryTokensPageSchema, example: examples.tokenPage },
    errors: [404],
  },
  listEvents: {
    method: 'get',
    path: `${job}/events`,
    summary: 'Get Training Job Events',
    tag: 'training',
    description:
      'Oldest first: `training_started`, one `gradient_step` per gradient step, `training_waiting` with the `reason` of a wait, then `training_ended` or `training_failed`. The new checkpoint exists before `training_ended`. With `Accept: text/event-stream` the answer is a stream without `limit`.',
    query: contract.pageQuerySchema,
    headers: ['Last-Event-ID'],
    answer: {
      schema: contract.trainingEventPageSchema,
      example: examples.eventPage,
      stream: {
        schema: contract.trainingEventSchema,
        example: examples.event,
        description: 'With Accept: text/event-stream, every event as it happens, until the last.',
      },
    },
    errors: [404],
  },
  cancelJob: {
    method: 'post',
    path: `${job}/cancel`,
    summary: 'Cancel Training Job',
    tag: 'training',
    ...keyed,
    description:
      'An extension of this service. Answers once the job has ended. A cancelled job creates no checkpoint; its last event is a `training_failed`. A job that succeeded or failed is a 409.',
    answer: { schema: contract.trainingJobSchema, example: examples.cancelledJob },
    errors: [404, 409],
  },
  health: {
    method: 'get',
    path: '/v1/health',
    summary: 'Health Check',
    tag: 'service',
    description: 'Answers while the service runs.',
    answer: { schema: contract.healthSchema, example: examples.health },
  },
  systemCheck: {
    method: 'get',
    path: '/v1/system-check',
    summary: 'System Check',
    tag: 'service',
    description: 'Checks the parts of the service. If one fails, the same body has status 503.',
    answer: { schema: contract.systemCheckSchema, example: examples.systemCheck },
  },
  listInferenceModels: {
    method: 'get',
    path: '/v1/models',
    summary: 'List inference models',
    tag: 'inference',
    description: 'The models of chat completions: base models, then trained ones.',
    answer: { schema: contract.inferenceModelListSchema, example: examples.inferenceModels },
  },
  getInferenceModel: {
    method: 'get',
    path: '/v1/models/{model}',
    summary: 'Get inference model',
    tag: 'inference',
    description:
      'An extension of this service. A model of chat completions by its name: a base model, a trained one, or one of its checkpoints with `:stepN`. Slashes and colons may be percent-encoded.',
    answer: { schema: contract.inferenceModelSchema, example: examples.inferenceModels.data[1] },
    errors: [404],
  },
  openApi: {
    method: 'get',
    path: '/v1/openapi.json',
    summary: 'This document',
    tag: 'service',
    description: 'An extension of this service.',
    answer: {
      schema: z.looseObject({ openapi: z.string() }),
      example: { openapi: '3.1.0', info: { title: 'martingale', version: '1' }, paths: {} },
    },
  },
} satisfies Record<string, Operation>;
