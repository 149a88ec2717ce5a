import { basename, resolve } from 'node:path';
import {
  type ChatFormat,
  type Constraint,
  JsonFields,
  type Language,
  type Reply,
  readLanguage,
  type SharedLanguage,
  type Tokenizer,
} from '../../language/index.ts';
import { maxTimerMs } from '../../util/deadline.ts';
import { FairMutex } from '../../util/fair-mutex.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import type {
  BaseModel,
  Engine,
  ExportedWeights,
  GenerateRequest,
  Generation,
  GenerationDelta,
  ScoredToken,
  TrainRequest,
  Weights,
} from '../engine.ts';
import { EngineError } from '../engine.ts';
import { Adapters } from './adapters.ts';
import { exportAdapter } from './export-adapter.ts';
import { Sampler } from './generate.ts';
import { pathOf, writeManifest } from './manifest.ts';
import { probe, serverModelOf } from './probe.ts';
import { constraintRefused, unsupported } from './refusals.ts';
import { TinkerApi } from './tinker-api.ts';
import { train } from './train.ts';
import type { Reduction } from './train-step.ts';

export interface TinkerEngineOptions {
  /** Address of the server, such as `http://gpu-box:8001`. */
  url: string;
  /**
   * Folder of the base model that the server runs, in Hugging Face form. Only its tokenizer, its chat template and
   * `config.json` are read; the weights need not be there.
   */
  checkpoint: string;
  /** Name of the base model. Default: the folder's name. */
  id?: string;
  /** Rank of the LoRA adapters. Default 16. */
  rank?: number;
  /**
   * Adapters on the server at once: one for training, the others for sampling, each from one checkpoint. Default 4. The
   * server must have as many places, or the engine does not start: SkyRL's `max_lora_adapters` counts one more.
   */
  adapters?: number;
  /** For servers that know keys. Default: the environment variable `TINKER_API_KEY`, or none. */
  apiKey?: string;
  /**
   * Called when the engine begins to wait for the server, with what it waits for: a place for an adapter, at the start or
   * to sample. The waits of jobs are in their events. Default: nothing.
   */
  onWait?: (reason: string) => void;
  /**
   * Ends the opening: the waits for the server, for its places, and the check of what it computes. The call rejects with
   * its reason once the places on the server are free again, or after two seconds. Has no effect on the opened engine,
   * which `close` ends. Default: none.
   */
  signal?: AbortSignal | undefined;
}

const optionNames = {
  url: true,
  checkpoint: 'path',
  id: 'text',
  rank: true,
  adapters: true,
  apiKey: 'text',
  onWait: 'function',
  signal: 'signal',
} satisfies OptionNames<TinkerEngineOptions>;

/**
 * The engine whose model is on a training server of the Tinker API 0.25, as SkyRL 0.4.0 serves it. Text, tokens and losses
 * are computed here, weights and gradients there.
 *
 * @throws OptionError (`unknown_option`, `invalid_option`); EngineError (`engine_away`, `engine_full`, `engine_unsupported`, `bad_option`) or LanguageError (`bad_checkpoint`,
 * `checkpoint_unsupported`).
 */
export async function createTinkerEngine(options: TinkerEngineOptions): Promise<Engine> {
  checkOptionNames('createTinkerEngine()', options, optionNames);
  const {
    url,
    checkpoint,
    id,
    rank = 16,
    adapters: places = 4,
    apiKey = process.env.TINKER_API_KEY,
    onWait = () => undefined,
    signal,
  } = options;
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new EngineError('bad_option', `\`url\` is ${url}. Pass an http or https address.`);
  for (const [name, value, least] of [['rank', rank, 1] as const, ['adapters', places, 2] as const])
    if (!Number.isInteger(value) || value < least)
      throw new EngineError(
        'bad_option',
        `\`${name}\` is ${value}. Pass a whole number of at least ${least}.`,
      );
  signal?.throwIfAborted();
  const language = readLanguage(checkpoint);
  const baseModel = baseModelOf(checkpoint, { id, language });
  const api = new TinkerApi({ url, apiKey });
  let adapters: Adapters | undefined;
  try {
    const serverModel = await serverModelOf(api, signal);
    adapters = new Adapters({ api, serverModel, rank, places, onWait });
    const reduction = await probe(api, adapters, { serverModel, places, signal });
    return new TinkerEngine({ api, adapters, baseModel, language, reduction });
  } catch (error) {
    await adapters?.end();
    await api.close();
    signal?.throwIfAborted();
    throw error;
  }
}

interface Parts {
  api: TinkerApi;
  adapters: Adapters;
  baseModel: BaseModel;
  language: Awaited<ReturnType<typeof readLanguage>>;
  reduction: Reduction;
}

class TinkerEngine implements Engine {
  readonly name = 'tinker';
  readonly baseModels: readonly BaseModel[];
  readonly logitsProcessors: readonly string[] = [];
  readonly #parts: Parts;
  readonly #sampler: Sampler;
  readonly #training = new FairMutex({
    maxWaiting: 1000,
    maxWaitMs: maxTimerMs,
    refusal: () =>
      new EngineError('training_busy', 'Too many jobs wait for the engine to train. Retry later.'),
  });
  /** Paths on the server by the folders of checkpoints that were sampled. */
  readonly #paths = new Map<string, string>();
  readonly #closed = new AbortController();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.baseModels = [parts.baseModel];
    const { api, adapters, language, baseModel } = parts;
    const { contextLength } = baseModel;
    const { signal: closed } = this.#closed;
    this.#sampler = new Sampler({
      api,
      adapters,
      ...language,
      contextLength,
      pathOf: (weights) => this.#pathOf(weights),
      closed,
    });
  }

  tokenizer(): Tokenizer {
    return this.#parts.language.tokenizer;
  }

  chatFormat(): ChatFormat {
    return this.#parts.language.format;
  }

  sharedLanguage(): SharedLanguage {
    return this.#parts.language.shared;
  }

  async checkConstraint(_baseModel: string, _constraint: Constraint): Promise<void> {
    throw constraintRefused();
  }

  async generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void): Promise<Generation> {
    const { vocabularySize } = this.#parts.baseModel;
    const wrong = request.prompt.find((token) => !(token >= 0 && token < vocabularySize));
    if (wrong !== undefined || request.prompt.length === 0)
      throw new EngineError('bad_prompt', `Token ${wrong} of the prompt is outside the vocabulary.`);
    const generation = await this.#sampler.generate(request);
    const { tokens, logprobs, topLogprobs } = generation;
    onDelta?.({ tokens, logprobs, topLogprobs });
    return generation;
  }

  async beamSearch(): Promise<Generation[]> {
    throw unsupported('use_beam_search', 'the server samples only; leave it out');
  }

  async scorePrompt(): Promise<(ScoredToken | null)[]> {
    throw unsupported('prompt_logprobs', 'the server does not tell the ranks of tokens; leave it out');
  }

  async encodeReplies(_baseModel: string, replies: readonly Reply[]): Promise<number[][]> {
    const { tokenizer, format } = this.#parts.language;
    return replies.map(({ parts, constraint, end = format.endToken }) => {
      if (constraint) throw constraintRefused();
      const tokens = parts.flatMap((part) =>
        typeof part === 'number' ? [part] : tokenizer.encodeExactly(part),
      );
      return [...tokens, end];
    });
  }

  async train({ from, folder, batches, onStep, onWait, signal }: TrainRequest): Promise<void> {
    const { api, baseModel } = this.#parts;
    const { vocabularySize, contextLength } = baseModel;
    await this.#training.run(
      async () => {
        const path = await train(
          { ...this.#parts, vocabularySize, contextLength },
          {
            ...{ batches, onStep, from: await pathOf(from) },
            ...(onWait ? { onWait } : {}),
            referenceOf: async ({ reference }) => reference && pathOf(reference),
            signal: this.#untilClosed(signal),
          },
        );
        await writeManifest(folder, { server: api.url, baseModel: baseModel.id, path });
      },
      { signal },
    );
  }

  async exportWeights(weights: Weights, { signal }: { signal?: AbortSignal } = {}): Promise<ExportedWeights> {
    const { api, adapters, baseModel } = this.#parts;
    const parts = { api, adapters, baseModel: baseModel.id, signal: this.#untilClosed(signal) };
    return exportAdapter(parts, await pathOf(weights));
  }

  /** The weights stay on the server, because a fork may begin from them. */
  async drop(weights: Weights): Promise<void> {
    const path = await pathOf(weights).catch(() => undefined);
    if (path !== undefined) this.#parts.adapters.drop(path);
    if (weights.folder !== null) this.#paths.delete(weights.folder);
  }

  async check(): Promise<void> {
    await this.#parts.api.get('get_server_capabilities', AbortSignal.timeout(5000));
  }

  async close(): Promise<void> {
    this.#closed.abort(new EngineError('engine_closed', 'The engine is closed.'));
    await this.#parts.adapters.end();
    await this.#parts.api.close();
  }

  /** As `pathOf`; a manifest never changes, so it is read once. */
  async #pathOf(weights: Weights): Promise<string | null> {
    const { folder } = weights;
    if (folder === null) return null;
    const path = this.#paths.get(folder) ?? (await pathOf(weights));
    if (path !== null) this.#paths.set(folder, path);
    return path;
  }

  #untilClosed(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#closed.signal]) : this.#closed.signal;
  }
}

function baseModelOf(
  folder: string,
  { id = basename(resolve(folder)), language }: { id: string | undefined; language: Language },
): BaseModel {
  return {
    id,
    contextLength: JsonFields.read(folder, 'config.json').count('max_position_embeddings', mostPositions),
    vocabularySize: language.tokenizer.vocabularySize,
    parameters: null,
    isRemote: true,
    defaults: { rlLearningRate: 1e-4, sftLearningRate: 2e-4, sftBatchSize: 16 },
  };
}

const mostPositions = 2 ** 27;
