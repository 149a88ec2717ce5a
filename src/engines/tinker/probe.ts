import { largestOf } from '../../util/extremes.ts';
import { isObject } from '../../util/json.ts';
import { EngineError } from '../engine.ts';
import type { Adapter, Adapters } from './adapters.ts';
import { TinkerError } from './connection.ts';
import type { TinkerApi } from './tinker-api.ts';
import type { TinkerDatum } from './tinker-protobuf.ts';
import { gradientNormOf } from './train.ts';
import type { Reduction } from './train-step.ts';

/** The name of the only base model that the server has. */
export async function serverModelOf(api: TinkerApi, signal?: AbortSignal): Promise<string> {
  const { supported_models: models } = await api.get('get_server_capabilities', signal);
  const names = (Array.isArray(models) ? models : []).flatMap((model: unknown) =>
    isObject(model) && typeof model.model_name === 'string' ? [model.model_name] : [],
  );
  if (names.length === 1) return names[0] as string;
  throw wrong(api, `it names ${names.length} base models; start it with one`);
}

/** Largest difference between log-probabilities of the sampler and of the trainer, of the base model. */
const tolerance = 0.05;

/**
 * Finds out how the server adds losses, and checks that it reports log-probabilities of the base model's distribution,
 * equal in sampling and training. Rejects when the signal aborts.
 *
 * @throws EngineError (`engine_unsupported`) that says what is different.
 */
export async function probe(
  api: TinkerApi,
  adapters: Adapters,
  { serverModel, places, signal }: { serverModel: string; places: number; signal?: AbortSignal | undefined },
): Promise<Reduction> {
  const tokens = [3, 1, 4, 1];
  const targets = [1, 4, 1, 5];
  const adapter = await adapters.open(null, { optimizer: false, signal });
  try {
    await holdsOthers(api, adapters, { count: places - 1, signal });
    const [trained = new Float32Array()] = await api.pass(adapter.id, [{ tokens, targets, inputs: null }], {
      ...{ loss: 'cross_entropy', sequence: adapter.sequence++, isForwardOnly: true, signal },
    });
    const { promptLogprobs } = await api.sample(
      {
        prompt: { chunks: [{ type: 'encoded_text', tokens: [...tokens, 5] }] },
        num_samples: 1,
        sampling_params: { max_tokens: 16, temperature: 1, seed: 0 },
        base_model: serverModel,
        prompt_logprobs: true,
      },
      signal,
    );
    // Some servers give a value for the first token, which nothing predicts.
    const sampled = promptLogprobs?.slice(-targets.length) ?? [];
    const difference = largestOf(targets.map((_, at) => Math.abs((trained[at] ?? 0) - (sampled[at] ?? 0))));
    if (!(difference < tolerance))
      throw wrong(api, `log-probabilities of its sampler and its trainer differ by ${difference}`);
    const inputs = {
      weights: Float32Array.of(1, 1, 1, 1),
      logprobs: trained,
      advantages: Float32Array.of(1, 1, 1, 1),
    };
    const datum = { tokens, targets, inputs };
    const once = await gradientNorm(api, adapter, { data: [datum], signal });
    const twice = await gradientNorm(api, adapter, { data: [datum, datum], signal });
    if (Math.abs(twice / once - 1) < 0.01) return 'mean';
    if (Math.abs(twice / once - 2) < 0.02) return 'sum';
    throw wrong(api, `a sequence twice has ${twice / once} times the gradient of once, neither 1 nor 2`);
  } finally {
    void adapters.close(adapter);
  }
}

/**
 * Refuses a server that has room for one adapter only, as SkyRL's FSDP backend: one trains while others are sampled. Fills
 * as many places as this engine needs, because only a full server tells how many it has.
 */
async function holdsOthers(
  api: TinkerApi,
  adapters: Adapters,
  { count, signal }: { count: number; signal: AbortSignal | undefined },
): Promise<void> {
  const opened: Adapter[] = [];
  try {
    while (opened.length < count) opened.push(await adapters.open(null, { optimizer: false, signal }));
  } catch (error) {
    if (!(error instanceof TinkerError) || error.code === 'engine_away') throw error;
    const held = opened.length === 0 ? 'one adapter' : `${opened.length + 1} adapters`;
    throw wrong(api, `it holds ${held} at a time, and this service needs ${count + 1} (${error.message})`);
  } finally {
    for (const adapter of opened) void adapters.close(adapter);
  }
}

/** The norm of the gradient of a step that changes nothing. */
async function gradientNorm(
  api: TinkerApi,
  adapter: Adapter,
  { data, signal }: { data: TinkerDatum[]; signal: AbortSignal | undefined },
): Promise<number> {
  const sequence = adapter.sequence++;
  await api.pass(adapter.id, data, { loss: 'importance_sampling', sequence, isForwardOnly: false, signal });
  const body = { model_id: adapter.id, adam_params: { learning_rate: 0 }, seq_id: adapter.sequence++ };
  const { metrics } = await api.operation('optim_step', body, { repeat: 'never', signal });
  const { grad_norm: norm } = gradientNormOf(metrics);
  if (norm === undefined || norm === 0) throw wrong(api, 'it does not return the norm of the gradient');
  return norm;
}

const wrong = (api: TinkerApi, problem: string) =>
  new EngineError(
    'engine_unsupported',
    `The training server ${api.url} cannot be used: ${problem}. SkyRL 0.4.0 with its JAX backend works. Its Megatron backend holds several adapters too.`,
  );
