import { availableParallelism, totalmem } from 'node:os';
import { ConstraintChecker } from '../../language/constraint/checker/checker.ts';
import type { Constraint, Reply } from '../../language/constraint/constraint.ts';
import type { ConstraintPlan } from '../../language/grammar/compiler.ts';
import type { ChatFormat, Tokenizer } from '../../language/tokenizer/tokenizer.ts';
import type {
  BeamSearchRequest,
  Caller,
  Engine,
  ExportedWeights,
  GenerateRequest,
  Generation,
  GenerationDelta,
  ScoredToken,
  ScorePromptRequest,
  TrainRequest,
  Weights,
} from '../engine.ts';
import { EngineError } from '../engine.ts';
import { embeddedBaseModels, findBaseModel } from './base-models.ts';
import { ConversationCodec } from './conversation-codec.ts';
import { loadProcessors, processorModules } from './extensions/logits-processors.ts';
import { installCommand, type RuntimeChoice, runtimeOfEnvironment } from './runtime.ts';
import { SamplerClient } from './sampler-client.ts';
import { TrainerClient } from './trainer-client.ts';
import { exportWeights } from './weights/export.ts';

export interface EmbeddedEngineOptions {
  /**
   * `onnxruntime-node`, `onnxruntime-web`, or `auto`, which takes `onnxruntime-node` when it can be loaded and the
   * slower `onnxruntime-web` otherwise. Both are optional peer dependencies: install one, or creating the engine fails
   * with the code `runtime_missing`. Default: `MARTINGALE_RUNTIME`, else `auto`.
   */
  runtime?: RuntimeChoice;
  /** Threads that training may use. Default: the machine's cores, at most 4. */
  threads?: number;
  /** Threads that sampling may use. Default 1: small models sample no faster on more. */
  samplerThreads?: number;
  /** Replies sampled at once from one set of weights; others wait. A beam search counts its width. Default 256. */
  largestBatch?: number;
  /**
   * Memory for keys and values of ended sequences, in bytes, for all sets of weights together. The least recently used
   * are dropped first; 0 keeps none. Default 256 MiB.
   */
  prefixCacheBytes?: number;
  /**
   * Logits processors that requests may use, by name. Each value is the URL or the file path of a module whose default
   * export is a `LogitsProcessorFactory`. The module is loaded in this thread and in the engine's threads:
   * `{ 'my.Processor': new URL('./my-processor.ts', import.meta.url) }`. Default: none.
   */
  logitsProcessors?: Readonly<Record<string, string | URL>>;
  /**
   * Heap of each of the two threads, in bytes. A thread that needs more is ended: its calls in flight fail with
   * `worker_died`, and a new thread replaces it. Weights and caches are not on the heap. Default: a quarter of the
   * machine's memory, at least 512 MiB and at most 4 GiB.
   */
  threadHeapBytes?: number;
  /**
   * How long a thread may spend in one piece of JavaScript, such as a logits processor, before it is ended in the same
   * way. Runs of the model do not count. Default 60000.
   */
  threadTimeoutMs?: number;
}

/**
 * The engine that runs anywhere: small transformers on ONNX Runtime, sampling in one worker thread and training in
 * another. The same seed gives the same tokens whatever else is running, and training repeats bit for bit on the
 * same machine, also with another number of threads.
 *
 * `close` fails all calls in flight and all later ones at once, with the code `engine_closed`. It resolves when the
 * threads have ended: each completes its current run of the model and the checkpoint it is writing, and is terminated
 * when that takes longer than ten seconds.
 */
export async function createEmbeddedEngine(options: EmbeddedEngineOptions = {}): Promise<Engine> {
  const {
    runtime = runtimeOfEnvironment(),
    threads = Math.min(4, availableParallelism()),
    samplerThreads = 1,
    largestBatch = 256,
    prefixCacheBytes = 256 * 2 ** 20,
    logitsProcessors = {},
    threadHeapBytes = defaultHeapBytes(),
    threadTimeoutMs = 60_000,
  } = options;
  const wholeNumbers = { threads, samplerThreads, largestBatch, threadHeapBytes, threadTimeoutMs };
  for (const [name, value] of Object.entries(wholeNumbers))
    if (!Number.isInteger(value) || value < 1)
      throw new EngineError('bad_option', `${name} must be a whole number of at least 1, not ${value}`);
  if (!Number.isSafeInteger(prefixCacheBytes) || prefixCacheBytes < 0)
    throw new EngineError(
      'bad_option',
      `prefixCacheBytes must be a whole number, 0 or more, not ${prefixCacheBytes}`,
    );
  const modules = processorModules(logitsProcessors);
  const processors = await loadProcessors(modules);
  const settings = {
    runtime,
    largestBatch,
    prefixCacheBytes,
    logitsProcessors: modules,
    threadHeapBytes,
    threadTimeoutMs,
  };
  const engine = new EmbeddedEngine(
    await ConversationCodec.create(processors),
    [...processors.keys()],
    new SamplerClient({ ...settings, threads: samplerThreads }),
    new TrainerClient({ ...settings, threads }),
  );
  const found = await engine.start();
  if (runtime === 'auto' && found === 'onnxruntime-web')
    process.emitWarning(
      `onnxruntime-node is not installed or cannot be loaded here, so the embedded engine runs on onnxruntime-web, which is slower. Run: ${installCommand('onnxruntime-node')} - or set MARTINGALE_RUNTIME=onnxruntime-web to say that this is meant.`,
      { type: 'MartingaleWarning', code: 'slow_runtime' },
    );
  return engine;
}

function defaultHeapBytes(): number {
  return Math.floor(Math.min(4 * 2 ** 30, Math.max(512 * 2 ** 20, totalmem() / 4)));
}

class EmbeddedEngine implements Engine {
  readonly name = 'embedded';
  readonly baseModels = embeddedBaseModels;
  readonly logitsProcessors: readonly string[];
  readonly #codec: ConversationCodec;
  readonly #checker = new ConstraintChecker();
  readonly #sampler: SamplerClient;
  readonly #trainer: TrainerClient;

  constructor(
    codec: ConversationCodec,
    logitsProcessors: readonly string[],
    sampler: SamplerClient,
    trainer: TrainerClient,
  ) {
    this.#codec = codec;
    this.logitsProcessors = logitsProcessors;
    this.#sampler = sampler;
    this.#trainer = trainer;
  }

  /** Starts the threads, so that a missing runtime is reported at once; returns the name of their runtime. */
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

  async checkConstraint(baseModel: string, constraint: Constraint, caller?: Caller): Promise<void> {
    findBaseModel(baseModel);
    await this.#checker.plan(constraint, caller);
  }

  async generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void): Promise<Generation> {
    const maxTokens = replyRoom(request);
    const { constraint, ...rest } = request;
    return this.#sampler.generate({ ...rest, maxTokens, plan: await this.#plan(constraint, rest) }, onDelta);
  }

  async beamSearch(request: BeamSearchRequest): Promise<Generation[]> {
    const { width, lengthPenalty } = request;
    if (!Number.isInteger(width) || width < 1)
      throw new EngineError('bad_width', `width must be a whole number of at least 1, not ${width}`);
    if (!Number.isFinite(lengthPenalty))
      throw new EngineError('bad_length_penalty', `lengthPenalty must be a number, not ${lengthPenalty}`);
    const maxTokens = replyRoom(request);
    const { constraint, ...rest } = request;
    return this.#sampler.search({ ...rest, maxTokens, plan: await this.#plan(constraint, rest) });
  }

  /** Constraints are not compiled in the thread that samples, because all other requests would wait. */
  async #plan(constraint: Constraint | null, caller: Caller): Promise<ConstraintPlan | null> {
    return constraint && this.#checker.plan(constraint, caller);
  }

  async scorePrompt(request: ScorePromptRequest): Promise<(ScoredToken | null)[]> {
    const { contextLength } = findBaseModel(request.weights.baseModel);
    const { length } = request.prompt;
    if (length === 0 || length > contextLength)
      throw new EngineError(
        'bad_prompt',
        `a prompt to score must have 1 to ${contextLength} tokens; this one has ${length}`,
      );
    checkTokens(request);
    return this.#sampler.score(request);
  }

  async exportWeights(weights: Weights): Promise<ExportedWeights> {
    return exportWeights(findBaseModel(weights.baseModel), weights);
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

  async check(): Promise<void> {
    await this.#sampler.check();
  }

  async close(): Promise<void> {
    await Promise.all([this.#sampler.close(), this.#trainer.close(), this.#checker.close()]);
  }
}

/** The largest number of tokens a reply can have: `maxTokens` of the request, or less where the context ends. */
function replyRoom(request: GenerateRequest | BeamSearchRequest): number {
  const { weights, prompt, maxTokens } = request;
  const { contextLength } = findBaseModel(weights.baseModel);
  const room = contextLength - prompt.length;
  if (prompt.length === 0 || room < 1)
    throw new EngineError(
      'bad_prompt',
      `a prompt must have 1 to ${contextLength - 1} tokens; this one has ${prompt.length}`,
    );
  checkTokens(request);
  return Math.min(maxTokens, room);
}

/** An id outside the vocabulary would fail the run of the model, and with it all other requests of the batch. */
function checkTokens({ weights, prompt }: Pick<GenerateRequest, 'weights' | 'prompt'>): void {
  const { vocabularySize } = findBaseModel(weights.baseModel);
  const at = prompt.findIndex((token) => !Number.isInteger(token) || token < 0 || token >= vocabularySize);
  if (at >= 0)
    throw new EngineError(
      'bad_prompt',
      `token ${prompt[at]} of the prompt, at position ${at}, is outside the vocabulary; ids are 0 to ${vocabularySize - 1}`,
    );
}
