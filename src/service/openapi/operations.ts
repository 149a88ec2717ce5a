import { z } from 'zod';
import * as contract from '../../contract/index.ts';
import { examples } from './examples.ts';
import { modelOperations } from './model-operations.ts';
import type { Operation } from './operation.ts';
import { trainingOperations } from './training-operations.ts';

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

const service: Operation[] = [
  {
    ...{ method: 'get', path: '/v1/health', summary: 'Health Check', tag: 'service' },
    description: 'Answers while the process serves.',
    answer: { schema: contract.healthSchema, example: examples.health },
    errors: [],
  },
  {
    ...{ method: 'get', path: '/v1/system-check', summary: 'System Check', tag: 'service' },
    description: 'Tries the parts of the service. 503, with the same body, when one fails.',
    answer: { schema: contract.systemCheckSchema, example: examples.systemCheck },
    errors: [],
  },
  {
    ...{ method: 'get', path: '/v1/models', summary: 'List inference models', tag: 'inference' },
    description:
      'What chat completions can be asked of: the base models, then the trained ones. Both base addresses of the interface are this one.',
    answer: { schema: contract.inferenceModelListSchema, example: examples.inferenceModels },
    errors: [],
  },
  {
    ...{ method: 'get', path: '/v1/models/{model}', summary: 'Get inference model', tag: 'inference' },
    description:
      'Added by us. A model that chat completions can be asked of, by the name that they call it: a base model, a trained one, or one of its checkpoints with `:stepN`. Slashes and colons of the name may stand as they are or percent-encoded.',
    answer: { schema: contract.inferenceModelSchema, example: examples.inferenceModels.data[1] },
    errors: [404],
  },
  {
    ...{ method: 'get', path: '/v1/openapi.json', summary: 'This document', tag: 'service' },
    description: 'Added by us.',
    answer: {
      schema: z.looseObject({ openapi: z.string() }),
      example: { openapi: '3.1.0', info: { title: 'martingale', version: '1' }, paths: {} },
    },
    errors: [],
  },
];

/** Every operation of the service; a test holds it against the routes. */
export const operations: readonly Operation[] = [
  { ...chatCompletion, path: '/v1/chat/completions' },
  { ...chatCompletion, path: '/v1/chat/completions/' },
  ...modelOperations,
  ...trainingOperations,
  ...service,
];
