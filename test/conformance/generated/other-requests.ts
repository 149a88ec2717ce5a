import fc from 'fast-check';
import { z } from 'zod';
import * as contract from '../../../src/contract/index.ts';
import type { JsonSchema } from '../../support/json-schema.ts';
import { type Sent, send, type Target } from './answers.ts';
import { mutationsOf } from './mutations.ts';
import { valuesOf } from './schema-arbitrary.ts';

export interface OtherRequest {
  valid: boolean;
  /** For the report of a test. */
  what: string;
  sent: Sent;
}

type Body = Record<string, unknown>;

const preview = '/v1/preview';
const conversation = [
  { role: 'user', content: 'hello' },
  { role: 'assistant', content: 'hi' },
];

/** What the requests refer to: a model with a trained checkpoint, the job that made it, an upload. */
interface Place {
  modelId: string;
  jobId: string;
  uploadUrl: string;
  /** A choice as the service sampled it. */
  choices: unknown[];
}

/** Valid and invalid requests of every endpoint except chat completions. */
export async function createOtherRequests(target: Target): Promise<fc.Arbitrary<OtherRequest>> {
  const place = await furnish(target);
  return fc.oneof(
    { arbitrary: reads(place), weight: 120 },
    { arbitrary: writes(place), weight: 120 },
    { arbitrary: jobs(place), weight: 1 },
    { arbitrary: wrongBodies(place), weight: 120 },
    { arbitrary: wrongPlaces(place), weight: 60 },
  );
}

async function furnish(target: Target): Promise<Place> {
  const post = async (path: string, body: unknown) => {
    const answer = await send(target, { method: 'POST', path, body });
    if (answer.status !== 200) throw new Error(answer.text);
    return z.looseObject({ id: z.string() }).parse(JSON.parse(answer.text));
  };
  const model = await post(`${preview}/models`, { project: 'generated', base_model: 'martingale-tiny' });
  const completion = await post('/v1/chat/completions', {
    messages: conversation.slice(0, 1),
    ...{ n: 4, max_tokens: 4, logprobs: true, return_token_ids: true },
  });
  const choices = z.array(z.unknown()).parse(completion.choices);
  const line = `${JSON.stringify({ messages: conversation })}\n`;
  const upload = await post(`${preview}/uploads`, line);
  const job = await post(`${preview}/training-jobs`, rlBody(model.id, choices));
  return { modelId: model.id, jobId: job.id, uploadUrl: String(upload.url), choices };
}

const rlBody = (modelId: string, choices: unknown[]) => ({
  model_id: modelId,
  trajectory_groups: [
    {
      trajectories: choices.map((choice, index) => ({
        messages_and_choices: [conversation[0], choice],
        reward: index % 2,
      })),
    },
  ],
});

function reads({ modelId, jobId }: Place): fc.Arbitrary<OtherRequest> {
  const lists = ['/models', `/models/${modelId}/checkpoints`];
  const page = fc.record(
    {
      limit: fc.integer({ min: 1, max: 100 }),
      order: fc.constantFrom('asc', 'desc'),
      after: fc.constant(''),
    },
    { requiredKeys: [] },
  );
  const whole = [
    ...['/v1/health', '/v1/system-check', '/v1/models', '/v1/openapi.json'],
    `${preview}/base-models`,
  ];
  return fc.oneof(
    fc
      .constantFrom(...whole, `${preview}/models/${modelId}`, `${preview}/training-jobs/${jobId}`)
      .map((path) => right({ method: 'GET', path })),
    fc
      .tuple(fc.constantFrom(...lists), page)
      .map(([path, query]) => right({ method: 'GET', path: `${preview}${path}?${queryOf(query)}` })),
    page.map(({ limit = 20 }) =>
      right({ method: 'GET', path: `${preview}/training-jobs/${jobId}/events?limit=${limit}` }),
    ),
  );
}

function writes(place: Place): fc.Arbitrary<OtherRequest> {
  const { modelId } = place;
  // Unique names, so that none is taken.
  const name = fc.uuid().map((id) => `m-${id}`);
  const made = fc.record(
    {
      entity: fc.constantFrom('team', null),
      project: fc.stringMatching(/^[a-z]{1,10}$/),
      name,
      base_model: fc.constantFrom('martingale-tiny', 'martingale-small'),
      return_existing: fc.constantFrom(true, false, null),
    },
    { requiredKeys: ['project', 'base_model'] },
  );
  const forked = fc.record({ name, step: fc.constantFrom(0, null), project: fc.constantFrom('forks', null) });
  const steps = fc.array(fc.integer({ min: 50, max: 90 }), { minLength: 1, maxLength: 3 });
  return fc.oneof(
    { arbitrary: made.map((body) => right(post('/models', body))), weight: 4 },
    { arbitrary: forked.map((body) => right(post(`/models/${modelId}/fork`, body))), weight: 1 },
    { arbitrary: logBodies(place).map((body) => right(post(`/models/${modelId}/log`, body))), weight: 4 },
    {
      arbitrary: groupBodies(place).map((body) => right(post(`/models/${modelId}/groups`, body))),
      weight: 4,
    },
    {
      arbitrary: steps.map((body) =>
        right({ method: 'DELETE', path: `${preview}/models/${modelId}/checkpoints`, body: { steps: body } }),
      ),
      weight: 1,
    },
    {
      arbitrary: fc
        .stringMatching(/^[a-z ]{1,20}$/)
        .map((content) => right(post('/uploads', uploadOf(content)))),
      weight: 2,
    },
  );
}

function jobs({ modelId, uploadUrl, choices }: Place): fc.Arbitrary<OtherRequest> {
  const config = definedValues('ExperimentalTrainingConfig', contract.rlConfigSchema, {
    learning_rate: fc.constantFrom(1e-4, 1e-5),
    loss_fn: fc.constant(null),
    kl_penalty_reference_step: fc.constantFrom(0, null),
    kl_penalty_step_lag: fc.constantFrom(1, 1000, null),
    kl_penalty_reference_model: fc.constantFrom('martingale-tiny', null),
  }).map(
    ({
      kl_penalty_reference_step: step,
      kl_penalty_step_lag: lag,
      kl_penalty_reference_model: teacher,
      kl_penalty_source: source,
      ...rest
    }) => {
      // Without a penalty there are no further fields, and only one reference is allowed.
      if (!rest.kl_penalty_coef) return rest;
      const reference =
        typeof teacher === 'string'
          ? { kl_penalty_reference_model: teacher }
          : typeof step === 'number'
            ? { kl_penalty_reference_step: step }
            : { kl_penalty_step_lag: lag };
      return { ...rest, ...reference, kl_penalty_source: source };
    },
  );
  const sft = fc.record(
    {
      ...{ batch_size: fc.constantFrom(1, 'auto', null), learning_rate: fc.constantFrom(1e-4, [1e-4], null) },
      assistant_turns: fc.constantFrom('all', 'last', null),
      metric_logging: fc.constantFrom(
        {},
        { enabled: false },
        { enabled: true, target_training_step: null },
        null,
      ),
    },
    { requiredKeys: [] },
  );
  return fc.oneof(
    config.map((experimental_config) =>
      right(post('/training-jobs', { ...rlBody(modelId, choices), experimental_config })),
    ),
    sft.map((body) =>
      right(post('/sft-training-jobs', { model_id: modelId, training_data_url: uploadUrl, config: body })),
    ),
  );
}

/** Bodies with one error. */
function wrongBodies(place: Place): fc.Arbitrary<OtherRequest> {
  const { modelId, uploadUrl, choices } = place;
  const wrong = (path: string, schema: z.ZodType, valid: fc.Arbitrary<Body>, method = 'POST') => {
    const { root, definitions } = toSchema(schema);
    return mutationsOf(root, definitions, valid).map(
      ({ what, body }): OtherRequest => ({
        valid: false,
        what,
        sent: { method, path: preview + path, body: JSON.stringify(body) },
      }),
    );
  };
  const model = fc.constant({ project: 'p', base_model: 'martingale-tiny' });
  const job = fc.constant(rlBody(modelId, choices));
  const sft = fc.constant({ model_id: modelId, training_data_url: uploadUrl });
  return fc.oneof(
    wrong('/models', contract.createModelRequestSchema, model),
    wrong(`/models/${modelId}/fork`, contract.forkModelRequestSchema, fc.constant({})),
    wrong(`/models/${modelId}/log`, contract.logRequestSchema, logBodies(place)),
    wrong(`/models/${modelId}/groups`, contract.trajectoryGroupSchema, groupBodies(place)),
    wrong('/training-jobs', contract.createTrainingJobRequestSchema, job),
    wrong('/sft-training-jobs', contract.createSftTrainingJobRequestSchema, sft),
    wrong(
      `/models/${modelId}/checkpoints`,
      contract.deleteCheckpointsRequestSchema,
      fc.constant({ steps: [9] }),
      'DELETE',
    ),
    fc
      .constantFrom(
        '',
        '{',
        '[1,',
        'null',
        '{"messages": []}',
        '{"messages":[{"role":"user","content":"x"}]}',
      )
      .map((body) => refused('the training data is empty', post('/uploads', body))),
  );
}

/** Paths of things that do not exist, or not for this caller. */
function wrongPlaces({ modelId, jobId }: Place): fc.Arbitrary<OtherRequest> {
  const unknown = '00000000-0000-4000-8000-000000000000';
  const paths = [
    `GET ${preview}/models/${unknown}`,
    `DELETE ${preview}/models/${unknown}`,
    `GET ${preview}/models/${unknown}/checkpoints`,
    `GET ${preview}/training-jobs/${unknown}`,
    `GET ${preview}/training-jobs/not-a-uuid/events`,
    `POST ${preview}/training-jobs/${unknown}/cancel`,
    `GET ${preview}/models/${modelId}/checkpoints/77/download`,
    `GET ${preview}/models/${modelId}/checkpoints?limit=0`,
    `GET ${preview}/models/${modelId}/checkpoints?limit=101`,
    `GET ${preview}/models?order=sideways`,
    `GET ${preview}/training-jobs/${jobId}/events?limit=many`,
    'GET /v1/nothing',
    'GET /',
    'PUT /v1/models',
    'POST /v1/health',
    `DELETE ${preview}/uploads`,
  ];
  const place = fc.constantFrom(...paths).map((text) => {
    const [method = '', path = ''] = text.split(' ');
    return refused('nothing is there', { method, path });
  });
  const stranger = fc
    .tuple(
      fc.constantFrom('/v1/health', '/v1/models', `${preview}/models`),
      fc.constantFrom('', 'Bearer', 'Bearer no'),
    )
    .map(([path, authorization]) => refused('no key', { method: 'GET', path, headers: { authorization } }));
  return fc.oneof({ arbitrary: place, weight: 3 }, stranger);
}

function logBodies({ modelId, choices }: Place): fc.Arbitrary<Body> {
  const message = fc.constantFrom(...conversation, ...choices);
  const body = definedValues('LogRequest', contract.logRequestSchema, {
    model_id: fc.constantFrom(modelId, null),
    groups: fc.constant(null),
    split: fc.constantFrom('train', 'val', 'test'),
    'trajectory_groups[].trajectories[].messages_and_choices': fc.array(message, { maxLength: 3 }),
    'trajectory_groups[].trajectories[].additional_histories[].messages_and_choices': fc.array(message, {
      maxLength: 2,
    }),
    'trajectory_groups[].trajectories[].tools': fc.constantFrom(null, []),
    'trajectory_groups[].trajectories[].additional_histories[].tools': fc.constantFrom(null, []),
    'trajectory_groups[].trajectories[].start_time': fc.constantFrom(
      '2026-01-02T03:04:05',
      '2026-01-02T03:04:05Z',
    ),
  });
  return body.map((sent) => ({ ...sent, trajectory_groups: sent.trajectory_groups ?? [] }));
}

function groupBodies({ choices }: Place): fc.Arbitrary<Body> {
  const trajectory = fc.record({
    messages_and_choices: fc.constantFrom(...choices).map((choice) => [conversation[0], choice]),
    reward: fc.integer({ min: -3, max: 3 }),
    metadata: fc.constantFrom(null, { colour: 'red' }),
  });
  return fc.record({ trajectories: fc.array(trajectory, { maxLength: 3 }), metadata: fc.constant(null) });
}

function definedValues(
  id: string,
  schema: z.ZodType,
  overrides: Record<string, fc.Arbitrary<unknown>>,
): fc.Arbitrary<Body> {
  const { root, definitions } = toSchema(schema);
  return valuesOf(root, { definitions, overrides }).map((value) => {
    if (typeof value !== 'object' || value === null) throw new Error(`${id} is no object`);
    return { ...value };
  });
}

function toSchema(schema: z.ZodType): { root: JsonSchema; definitions: Record<string, JsonSchema> } {
  const { $defs, ...root } = z.toJSONSchema(schema, { io: 'input' });
  return { root: root as JsonSchema, definitions: ($defs ?? {}) as Record<string, JsonSchema> };
}

const uploadOf = (content: string) =>
  `${JSON.stringify({
    messages: [
      { role: 'user', content },
      { role: 'assistant', content },
    ],
  })}\n`;
const queryOf = (query: object) =>
  new URLSearchParams(Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]));
const post = (path: string, body: unknown): Sent => ({ method: 'POST', path: preview + path, body });
const right = (sent: Sent): OtherRequest => ({ valid: true, what: 'valid', sent });
const refused = (what: string, sent: Sent): OtherRequest => ({ valid: false, what, sent });
