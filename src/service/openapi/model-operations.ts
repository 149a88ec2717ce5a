import * as contract from '../../contract/index.ts';
import { examples } from './examples.ts';
import { keyed, type Operation } from './operation.ts';

const model = '/v1/preview/models/{model_id}';

/** Models and their checkpoints. */
export const modelOperations: readonly Operation[] = [
  {
    ...{ method: 'get', path: '/v1/preview/base-models', summary: 'List Base Models', tag: 'models' },
    description: 'The names that `base_model` takes, the default of chat completions first.',
    answer: { schema: contract.baseModelListSchema, example: examples.baseModels },
    errors: [],
  },
  {
    ...{ method: 'post', path: '/v1/preview/models', summary: 'Create Model', tag: 'models', ...keyed },
    description:
      'Makes a model that begins as its base model: it has a checkpoint of step 0. A name that is taken is 409, unless `return_existing` asks for the model that has it; that one must have the same base model.',
    body: { schema: contract.createModelRequestSchema, example: examples.createModel },
    answer: { schema: contract.modelSchema, example: examples.model },
    errors: [409],
  },
  {
    ...{ method: 'get', path: '/v1/preview/models', summary: 'List Models', tag: 'models' },
    description: 'Added by us. In the order in which they were made.',
    query: contract.orderedPageQuerySchema,
    answer: { schema: contract.modelPageSchema, example: examples.modelPage },
    errors: [],
  },
  {
    ...{ method: 'get', path: model, summary: 'Get Model', tag: 'models' },
    description: 'Added by us.',
    answer: { schema: contract.modelSchema, example: examples.model },
    errors: [404],
  },
  {
    ...{ method: 'delete', path: model, summary: 'Delete Model', tag: 'models' },
    description:
      'Deletes a model with its checkpoints, jobs, events, logs and idempotency keys. Its unfinished jobs are cancelled first. Forks of it stay.',
    answer: { schema: contract.deleteModelResponseSchema, example: examples.deletedModel },
    errors: [404, 409],
  },
  {
    ...{ method: 'post', path: `${model}/fork`, summary: 'Fork Model', tag: 'models', ...keyed },
    description:
      "Added by us. Makes a model whose step 0 has the weights of a checkpoint of this one, and the optimizer's state where the checkpoint holds it. They are copied: this model may be deleted afterwards. Names follow the rules of Create Model. The body may be left out.",
    body: { schema: contract.forkModelRequestSchema, example: examples.forkModel, required: false },
    answer: { schema: contract.modelSchema, example: examples.fork },
    errors: [404, 409],
  },
  {
    ...{ method: 'get', path: `${model}/checkpoints`, summary: 'List Model Checkpoints', tag: 'models' },
    description: 'By step. Each training job makes the next one; numbers of deleted ones are not used again.',
    query: contract.orderedPageQuerySchema,
    answer: { schema: contract.checkpointPageSchema, example: examples.checkpointPage },
    errors: [404],
  },
  {
    ...{ method: 'delete', path: `${model}/checkpoints`, summary: 'Delete Model Checkpoints', tag: 'models' },
    description:
      'Steps that are not there are named in the answer. A model keeps at least one checkpoint, and the one that an unfinished job starts from stays: both are 409.',
    body: { schema: contract.deleteCheckpointsRequestSchema, example: examples.deleteCheckpoints },
    answer: { schema: contract.deleteCheckpointsResponseSchema, example: examples.deletedCheckpoints },
    errors: [404, 409],
  },
  {
    ...{ method: 'get', path: `${model}/checkpoints/{step}/download`, summary: 'Download Checkpoint' },
    description:
      "Added by us. A checkpoint's weights in one file that other tools read: `Content-Disposition` has its name, `Content-Length` its size. Step 0 of a model made from a base model is that one's weights. Ranges are not offered.",
    tag: 'models',
    answer: { schema: null, example: undefined },
    errors: [404],
  },
  {
    ...{ method: 'post', path: `${model}/log`, summary: 'Log', tag: 'models', ...keyed },
    description:
      "Keeps trajectories with a model, without training on them: as JSON lines, in the data folder's models/<id>/logs/<split>.jsonl.gz.",
    body: { schema: contract.logRequestSchema, example: examples.log },
    answer: { schema: contract.logResponseSchema, example: examples.logged },
    errors: [404, 409],
  },
];
