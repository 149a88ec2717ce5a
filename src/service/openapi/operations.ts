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
interface Answer {
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
  /** Request headers besides those of every request. */
  headers?: ('Idempotency-Key' | 'Last-Event-ID')[];
  answer: Answer;
  /** Error statuses besides the common ones: see `failuresOf`. */
  errors: number[];
}

/** For operations that accept an Idempotency-Key. */
const keyed: Pick<Operation, 'headers'> = { headers: ['Idempotency-Key'] };

const model = '/v1/preview/models/{model_id}';
const job = '/v1/preview/training-jobs/{job_id}';

const chatCompletion: Omit<Operation, 'path'> = {
  method: 'post',
  summary: 'Create Chat Completion',
  description:
    "Samples replies from a base model or a checkpoint. `model` absent means the first base model. The answer names the checkpoint that was sampled from, with its step. A vendor's name `vllm_xargs` is taken for `engine_xargs`.",
  tag: 'inference',
  body: { schema: contract.chatCompletionRequestSchema, example: examples.chatRequest },
  answer: {
    schema: contract.chatCompletionSchema,
    example: examples.chatCompletion,
    stream: {
      schema: contract.chatCompletionChunkSchema,
      example: examples.chatChunk,
      description:
        'With stream: true, chunks as server-sent events, ended by "data: [DONE]". An error after the first chunk comes as an event with an `error` object.',
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
    description: 'The names that `base_model` takes, the default of chat completions first.',
    answer: { schema: contract.baseModelListSchema, example: examples.baseModels },
    errors: [],
  },
  createModel: {
    method: 'post',
    path: '/v1/preview/models',
    summary: 'Create Model',
    tag: 'models',
    ...keyed,
    description:
      'Makes a model that begins as its base model: it has a checkpoint of step 0. A name that is taken is 409, unless `return_existing` asks for the model that has it; that one must have the same base model.',
    body: { schema: contract.createModelRequestSchema, example: examples.createModel },
    answer: { schema: contract.modelSchema, example: examples.model },
    errors: [409],
  },
  listModels: {
    method: 'get',
    path: '/v1/preview/models',
    summary: 'List Models',
    tag: 'models',
    description: 'Added by us. In the order in which they were made.',
    query: contract.orderedPageQuerySchema,
    answer: { schema: contract.modelPageSchema, example: examples.modelPage },
    errors: [],
  },
  getModel: {
    method: 'get',
    path: model,
    summary: 'Get Model',
    tag: 'models',
    description: 'Added by us.',
    answer: { schema: contract.modelSchema, example: examples.model },
    errors: [404],
  },
  deleteModel: {
    method: 'delete',
    path: model,
    summary: 'Delete Model',
    tag: 'models',
    description:
      'Deletes a model with its checkpoints, jobs, events, logs and idempotency keys. Its unfinished jobs are cancelled first. Forks of it stay.',
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
      "Added by us. Makes a model whose step 0 has the weights of a checkpoint of this one, and the optimizer's state where the checkpoint holds it. They are copied: this model may be deleted afterwards. Names follow the rules of Create Model. The body may be left out.",
    body: { schema: contract.forkModelRequestSchema, example: examples.forkModel, required: false },
    answer: { schema: contract.modelSchema, example: examples.fork },
    errors: [404, 409],
  },
  listCheckpoints: {
    method: 'get',
    path: `${model}/checkpoints`,
    summary: 'List Model Checkpoints',
    tag: 'models',
    description: 'By step. Each training job makes the next one; numbers of deleted ones are not used again.',
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
      'Steps that are not there are named in the answer. A model keeps at least one checkpoint, and the one that an unfinished job starts from stays: both are 409.',
    body: { schema: contract.deleteCheckpointsRequestSchema, example: examples.deleteCheckpoints },
    answer: { schema: contract.deleteCheckpointsResponseSchema, example: examples.deletedCheckpoints },
    errors: [404, 409],
  },
  downloadCheckpoint: {
    method: 'get',
    path: `${model}/checkpoints/{step}/download`,
    summary: 'Download Checkpoint',
    description:
      "Added by us. A checkpoint's weights in one file that other tools read: `Content-Disposition` has its name, `Content-Length` its size. Step 0 of a model made from a base model is that one's weights. Ranges are not offered.",
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
      "Keeps trajectories with a model, without training on them: as JSON lines, in the data folder's models/<id>/logs/<split>.jsonl.gz.",
    body: { schema: contract.logRequestSchema, example: examples.log },
    answer: { schema: contract.logResponseSchema, example: examples.logged },
    errors: [404, 409],
  },
  upload: {
    method: 'post',
    path: '/v1/preview/uploads',
    summary: 'Upload training data',
    tag: 'training',
    ...keyed,
    description:
      'Added by us. JSON lines, a conversation each: what deployed clients write to train.jsonl or trajectories.jsonl. Every line is checked before anything is kept. The same data is kept once: while a job that has not ended needs it, and for 30 days after its last use.',
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
      '`training_data_url` is what an upload answered with (`upload:sha256-...`), or, where the operator has allowed the folder or the host, a `file:` or `https:` URL. A `file:` URL names a file of JSON lines, or a folder with a train.jsonl or a trajectories.jsonl; a metadata.json beside it is checked: `num_trajectories` must be the number of lines. The data is fetched, checked and kept before the job is accepted.',
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
      "Trains a model by reinforcement learning on groups of trajectories; the job makes the model's next checkpoint. Jobs run one at a time: the models take turns, and a model's jobs run in the order they came. A vendor's name `kimi_k2_tau` is taken for `vendor_k2_tau`.",
    body: { schema: contract.createTrainingJobRequestSchema, example: examples.createRlJob },
    answer: { schema: contract.createJobResponseSchema, example: examples.createdJob },
    errors: [404, 409],
  },
  getJob: {
    method: 'get',
    path: job,
    summary: 'Get Training Job',
    tag: 'training',
    description: 'Of both kinds. Fields beside `id` are added by us.',
    answer: { schema: contract.trainingJobSchema, example: examples.job },
    errors: [404],
  },
  listEvents: {
    method: 'get',
    path: `${job}/events`,
    summary: 'Get Training Job Events',
    tag: 'training',
    description:
      'In the order they happened: `training_started`, a `gradient_step` for each step, then `training_ended` or `training_failed`. The new checkpoint is listed before `training_ended` is. With `Accept: text/event-stream` they come as a stream, to which `limit` does not apply.',
    query: contract.pageQuerySchema,
    headers: ['Last-Event-ID'],
    answer: {
      schema: contract.trainingEventPageSchema,
      example: examples.eventPage,
      stream: {
        schema: contract.trainingEventSchema,
        example: examples.event,
        description: 'With Accept: text/event-stream, every event as it comes, until the last.',
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
      'Added by us. Answers when the job has ended; it leaves no checkpoint, and its last event is a `training_failed` that says so. A job that has succeeded or failed is 409.',
    answer: { schema: contract.trainingJobSchema, example: examples.cancelledJob },
    errors: [404, 409],
  },
  health: {
    method: 'get',
    path: '/v1/health',
    summary: 'Health Check',
    tag: 'service',
    description: 'Answers while the process serves.',
    answer: { schema: contract.healthSchema, example: examples.health },
    errors: [],
  },
  systemCheck: {
    method: 'get',
    path: '/v1/system-check',
    summary: 'System Check',
    tag: 'service',
    description: 'Tries the parts of the service. 503, with the same body, when one fails.',
    answer: { schema: contract.systemCheckSchema, example: examples.systemCheck },
    errors: [],
  },
  listInferenceModels: {
    method: 'get',
    path: '/v1/models',
    summary: 'List inference models',
    tag: 'inference',
    description:
      'What chat completions can be asked of: the base models, then the trained ones. Both base addresses of the interface are this one.',
    answer: { schema: contract.inferenceModelListSchema, example: examples.inferenceModels },
    errors: [],
  },
  getInferenceModel: {
    method: 'get',
    path: '/v1/models/{model}',
    summary: 'Get inference model',
    tag: 'inference',
    description:
      'Added by us. A model that chat completions can be asked of, by the name that they call it: a base model, a trained one, or one of its checkpoints with `:stepN`. Slashes and colons of the name may stand as they are or percent-encoded.',
    answer: { schema: contract.inferenceModelSchema, example: examples.inferenceModels.data[1] },
    errors: [404],
  },
  openApi: {
    method: 'get',
    path: '/v1/openapi.json',
    summary: 'This document',
    tag: 'service',
    description: 'Added by us.',
    answer: {
      schema: z.looseObject({ openapi: z.string() }),
      example: { openapi: '3.1.0', info: { title: 'martingale', version: '1' }, paths: {} },
    },
    errors: [],
  },
} satisfies Record<string, Operation>;
