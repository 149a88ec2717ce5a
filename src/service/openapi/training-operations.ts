import * as contract from '../../contract/index.ts';
import { examples } from './examples.ts';
import { keyed, type Operation } from './operation.ts';

const job = '/v1/preview/training-jobs/{job_id}';

/** Training jobs, their data and their events. */
export const trainingOperations: readonly Operation[] = [
  {
    ...{ method: 'post', path: '/v1/preview/uploads', summary: 'Upload training data', tag: 'training' },
    ...keyed,
    description:
      'Added by us. JSON lines, a conversation each: what deployed clients write to train.jsonl or trajectories.jsonl. Every line is checked before anything is kept. The same data is kept once: while a job that has not ended needs it, and for 30 days after its last use.',
    body: {
      ...{ schema: contract.sftExampleSchema, example: examples.sftExample, type: 'application/jsonl' },
    },
    answer: { schema: contract.uploadSchema, example: examples.upload },
    errors: [409],
  },
  {
    ...{ method: 'post', path: '/v1/preview/sft-training-jobs', summary: 'Create Sft Training Job' },
    ...{ tag: 'training', ...keyed },
    description:
      '`training_data_url` is what an upload answered with (`upload:sha256-...`), or, where the operator has allowed the folder or the host, a `file:` or `https:` URL. A `file:` URL names a file of JSON lines, or a folder with a train.jsonl or a trajectories.jsonl; a metadata.json beside it is checked: `num_trajectories` must be the number of lines. The data is fetched, checked and kept before the job is accepted.',
    body: { schema: contract.createSftTrainingJobRequestSchema, example: examples.createSftJob },
    answer: { schema: contract.createJobResponseSchema, example: examples.createdJob },
    errors: [404, 409],
  },
  {
    ...{ method: 'post', path: '/v1/preview/training-jobs', summary: 'Create Rl Training Job' },
    ...{ tag: 'training', ...keyed },
    description:
      "Trains a model by reinforcement learning on groups of trajectories; the job makes the model's next checkpoint. Jobs run one at a time: the models take turns, and a model's jobs run in the order they came. A vendor's name `kimi_k2_tau` is taken for `vendor_k2_tau`.",
    body: { schema: contract.createTrainingJobRequestSchema, example: examples.createRlJob },
    answer: { schema: contract.createJobResponseSchema, example: examples.createdJob },
    errors: [404, 409],
  },
  {
    ...{ method: 'get', path: job, summary: 'Get Training Job', tag: 'training' },
    description: 'Of both kinds. Fields beside `id` are added by us.',
    answer: { schema: contract.trainingJobSchema, example: examples.job },
    errors: [404],
  },
  {
    ...{ method: 'get', path: `${job}/events`, summary: 'Get Training Job Events', tag: 'training' },
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
  {
    ...{ method: 'post', path: `${job}/cancel`, summary: 'Cancel Training Job', tag: 'training', ...keyed },
    description:
      'Added by us. Answers when the job has ended; it leaves no checkpoint, and its last event is a `training_failed` that says so. A job that has succeeded or failed is 409.',
    answer: { schema: contract.trainingJobSchema, example: examples.cancelledJob },
    errors: [404, 409],
  },
];
