const modelId = '0e0b8a55-52a5-4b6b-a94c-7d5b9b4a4a10';
const jobId = '7d1a9c1e-3f2a-4c56-9d0e-0c2b8f6f1f11';
const checkpointId = '5f7c2d0a-94b1-4d6e-8a53-2f1f0e9d7c12';
const eventId = 'a1c5f7e2-0b3d-4e8f-9a6b-4d2c1e0f9b13';
const sha256 = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08';

const model = {
  id: modelId,
  entity: 'local',
  project: 'desk',
  name: 'agent',
  base_model: 'martingale-tiny',
  run_id: null,
  forked_from: null,
  engine: 'embedded',
};
const page = <Item extends { id: string }>(...data: Item[]) => ({
  object: 'list',
  data,
  first_id: data[0]?.id ?? '',
  last_id: data.at(-1)?.id ?? '',
  has_more: false,
});
const question = { role: 'user', content: 'Is the shop open on Sunday?' };
const answer = { role: 'assistant', content: 'No.' };
const sampling = { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: null };
const choice = {
  index: 0,
  message: answer,
  finish_reason: 'stop',
  token_ids: [310, 14, 5],
  logprobs: {
    content: [310, 14, 5].map((token) => ({
      token: `token_id:${token}`,
      logprob: -0.25,
      bytes: null,
      top_logprobs: [],
    })),
  },
  sampling,
};
const group = {
  trajectories: [
    { messages_and_choices: [question, choice], reward: 1 },
    {
      messages_and_choices: [question, { ...choice, message: { role: 'assistant', content: 'Yes.' } }],
      reward: 0,
    },
  ],
};
const job = {
  id: jobId,
  model_id: modelId,
  kind: 'rl',
  status: 'succeeded',
  created_at: '2026-01-05T09:00:00.000Z',
  started_at: '2026-01-05T09:00:01.000Z',
  ended_at: '2026-01-05T09:00:04.000Z',
  error_message: null,
  resolved_config: { learning_rate: 0.002, scale_rewards: true },
  step: 1,
  untrained: null,
};
const event = { id: eventId, type: 'gradient_step', data: { loss: 0.42, grad_norm: 1.5, reward: 0.5 } };
const part = { success: true, duration: 0.2, error: null };

/** A request and an answer of each operation. A test validates them against their schemas. */
export const examples = {
  chatRequest: {
    model: 'local/desk/agent',
    messages: [question],
    max_completion_tokens: 32,
    temperature: 1,
    logprobs: true,
    return_token_ids: true,
  },
  chatCompletion: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1767603600,
    model: 'local/desk/agent:step1',
    choices: [choice],
    usage: {
      prompt_tokens: 12,
      completion_tokens: 3,
      total_tokens: 15,
      prompt_tokens_details: { cached_tokens: 0 },
    },
  },
  chatChunk: {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1767603600,
    model: 'local/desk/agent:step1',
    choices: [{ index: 0, delta: { content: 'No' }, finish_reason: null }],
  },
  baseModels: ['martingale-tiny', 'martingale-small'],
  createModel: { project: 'desk', name: 'agent', base_model: 'martingale-tiny' },
  model,
  modelPage: page(model),
  deletedModel: { model_id: modelId, deleted_checkpoints: 2, deleted_run: false },
  forkModel: { step: 1, name: 'agent-2' },
  fork: {
    ...model,
    id: 'c3b0e6f4-6f1b-4a57-8b7e-1d9f2a3c4e14',
    name: 'agent-2',
    forked_from: { model_id: modelId, step: 1 },
  },
  checkpointPage: page(
    { id: eventId, step: 0, metrics: {} },
    { id: checkpointId, step: 1, metrics: { loss: 0.42, reward: 0.5 } },
  ),
  deleteCheckpoints: { steps: [0, 7] },
  deletedCheckpoints: { deleted_count: 1, not_found_steps: [7] },
  group,
  storedGroup: {
    id: `group-${sha256}`,
    num_trajectories: 2,
    num_sampled_tokens: 6,
    num_trainable_tokens: 6,
  },
  log: { split: 'train', trajectory_groups: [group] },
  logged: { split: 'train', num_groups: 1, num_trajectories: 2 },
  sftExample: { messages: [question, answer] },
  upload: { id: `sha256-${sha256}`, url: `upload:sha256-${sha256}`, sha256, bytes: 112 },
  createSftJob: {
    model_id: modelId,
    training_data_url: `upload:sha256-${sha256}`,
    config: { batch_size: 'auto', learning_rate: 0.001 },
  },
  createRlJob: {
    model_id: modelId,
    trajectory_groups: [group],
    experimental_config: { learning_rate: 0.002, ppo: false },
  },
  createdJob: { id: jobId },
  job,
  cancelledJob: {
    ...job,
    status: 'cancelled',
    error_message: 'The job was cancelled while it ran.',
    step: null,
  },
  jobPage: page(job),
  tokenPage: page({
    id: '0',
    group: 0,
    trajectory: 1,
    choices: [{ choice: 0, logprobs: [-0.41, null, -2.3], clipped: [2] }],
  }),
  event,
  eventPage: page(event),
  health: { status: 'ok' },
  systemCheck: {
    api: part,
    database: part,
    training_queue: part,
    inference_queue: { ...part, in_hand: 12, oldest_ms: 840, refused: 0 },
  },
  inferenceModels: {
    object: 'list',
    data: [
      {
        id: 'martingale-tiny',
        object: 'model',
        created: 1767603600,
        owned_by: 'embedded',
        root: 'martingale-tiny',
      },
      {
        id: 'local/desk/agent',
        object: 'model',
        created: 1767603660,
        owned_by: 'local',
        root: 'martingale-tiny',
      },
    ],
  },
};
