import { availableParallelism } from 'node:os';
import type {
  ChatFormat,
  Constraint,
  Engine,
  GenerateRequest,
  Generation,
  GenerationDelta,
  Reply,
  Tokenizer,
  TrainRequest,
  Weights,
} from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { embeddedBaseModels, findBaseModel } from './base-models.ts';
import { ConversationCodec } from './conversation-codec.ts';
import type { RuntimeChoice } from './runtime.ts';
import { SamplerClient } from './sampler-client.ts';
import { TrainerClient } from './trainer-client.ts';

export interface EmbeddedEngineOptions {
  /**
   * `onnxruntime-node`, `onnxruntime-web`, or `auto`: the first where it is installed, else the second.
   * Default: `MARTINGALE_RUNTIME`, else `auto`.
   */
  runtime?: RuntimeChoice;
  /** Threads that training may use. Default: the machine's cores, at most 4. */
  threads?: number;
  /** Threads that sampling may use. Default 1: small models sample no faster on more. */
  samplerThreads?: number;
  /** Replies sampled side by side from one set of weights; more wait. Default 256. */
  largestBatch?: number;
  /** Memory for keys and values of ended sequences, for each set of weights. Default 128 MiB. */
  prefixCacheBytes?: number;
}

/**
 * The engine that runs anywhere: small transformers on ONNX Runtime, sampling in one worker thread and training in
 * another. The same seed gives the same tokens whatever else runs beside it, and training repeats bit for bit on the
 * same machine, also with another number of threads.
 */
export async function createEmbeddedEngine(options: EmbeddedEngineOptions = {}): Promise<Engine> {
  const {
    runtime = runtimeOfEnvironment(),
    threads = Math.min(4, availableParallelism()),
    samplerThreads = 1,
    largestBatch = 256,
    prefixCacheBytes = 128 * 2 ** 20,
  } = options;
  for (const [name, value] of Object.entries({ threads, samplerThreads, largestBatch }))
    if (!Number.isInteger(value) || value < 1)
      throw new EngineError('bad_option', `${name} must be a whole number of at least 1, not ${value}`);
  const settings = { runtime, largestBatch, prefixCacheBytes };
  const engine = new EmbeddedEngine(
    await ConversationCodec.create(),
    new SamplerClient({ ...settings, threads: samplerThreads }),
    new TrainerClient({ ...settings, threads }),
  );
  const found = await engine.start();
  if (runtime === 'auto' && found === 'onnxruntime-web')
    process.emitWarning(
      'onnxruntime-node cannot be loaded here, so the embedded engine runs on WebAssembly, which is slower. Install onnxruntime-node, or set MARTINGALE_RUNTIME=onnxruntime-web to say that this is meant.',
      { type: 'MartingaleWarning', code: 'slow_runtime' },
    );
  return engine;
}

function runtimeOfEnvironment(): RuntimeChoice {
  const chosen = process.env.MARTINGALE_RUNTIME ?? 'auto';
  if (chosen === 'auto' || chosen === 'onnxruntime-node' || chosen === 'onnxruntime-web') return chosen;
  throw new EngineError(
    'bad_option',
    `MARTINGALE_RUNTIME must be auto, onnxruntime-node or onnxruntime-web, not ${chosen}`,
  );
}

class EmbeddedEngine implements Engine {
  readonly name = 'embedded';
  readonly baseModels = embeddedBaseModels;
  readonly #codec: ConversationCodec;
  readonly #sampler: SamplerClient;
  readonly #trainer: TrainerClient;

  constructor(codec: ConversationCodec, sampler: SamplerClient, trainer: TrainerClient) {
    this.#codec = codec;
    this.#sampler = sampler;
    this.#trainer = trainer;
  }

  /** Starts the threads, so that what is missing here shows at once; returns the name of their runtime. */
  async start(): Promise<string | undefined> {
    try {
      const [runtime] = await Promise.all([this.#sampler.start(), this.#trainer.start()]);
      return runtime;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  tokenizer(baseModel: string): Tokenizer {
    findBaseModel(baseModel);
    return this.#codec.tokenizer;
  }

  chatFormat(baseModel: string): ChatFormat {
    findBaseModel(baseModel);
    return this.#codec.format;
  }

  async checkConstraint(baseModel: string, constraint: Constraint): Promise<void> {
    findBaseModel(baseModel);
    await this.#codec.compile(constraint);
  }

  async generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void): Promise<Generation> {
    const { contextLength } = findBaseModel(request.weights.baseModel);
    const room = contextLength - request.prompt.length;
    if (request.prompt.length === 0 || room < 1)
      throw new EngineError(
        'bad_prompt',
        `a prompt must have 1 to ${contextLength - 1} tokens; this one has ${request.prompt.length}`,
      );
    return this.#sampler.generate({ ...request, maxTokens: Math.min(request.maxTokens, room) }, onDelta);
  }

  async encodeReplies(baseModel: string, replies: Reply[]): Promise<number[][]> {
    findBaseModel(baseModel);
    return this.#trainer.encodeReplies(baseModel, replies);
  }

  async train(request: TrainRequest): Promise<void> {
    findBaseModel(request.from.baseModel);
    await this.#trainer.train(request);
  }

  async drop(weights: Weights): Promise<void> {
    await this.#sampler.drop(weights);
  }

  async close(): Promise<void> {
    await Promise.all([this.#sampler.close(), this.#trainer.close()]);
  }
}
