import { availableParallelism } from 'node:os';
import { type Language, tinyLanguage } from '../../language/chat/read-language.ts';
import { ConstraintChecker } from '../../language/constraint/checker/checker.ts';
import type { Constraint, Reply } from '../../language/constraint/constraint.ts';
import type { ChatFormat, Tokenizer } from '../../language/tokenizer/tokenizer.ts';
import { maxTimerMs } from '../../util/deadline.ts';
import { FairMutex } from '../../util/fair-mutex.ts';
import { showValue } from '../../util/show-value.ts';
import type {
  BaseModel,
  BeamSearchRequest,
  Caller,
  Engine,
  ExportedWeights,
  GenerateRequest,
  Generation,
  ScoredToken,
  ScorePromptRequest,
  TrainRequest,
  Weights,
} from '../engine.ts';
import { EngineError } from '../engine.ts';
import { BaseModels, type EmbeddedBaseModel } from './base-models.ts';
import type { FetchProgress } from './checkpoint/fetch-checkpoint.ts';
import { loadProcessors, processorModules } from './extensions/logits-processors.ts';
import { defaultHeapBytes, defaultPrefixBytes, defaultTrainingBytes } from './memory.ts';
import { type CheckpointOptions, openCheckpoints } from './open-checkpoint.ts';
import { type Device, devices, installCommand, type RuntimeChoice, runtimeOfEnvironment } from './runtime.ts';
import { SamplerThreads } from './sampler/sampler-threads.ts';
import type { WorkerSettings } from './threads/worker-messages.ts';
import type { CallOptions } from './threads/worker-thread.ts';
import { TrainerThreads } from './trainer/trainer-threads.ts';
import { exportWeights } from './weights/export.ts';

export interface EmbeddedEngineOptions {
  /**
   * Checkpoints to sample from and to train by LoRA, besides the tiny models. Each is read once, as float32, and its
   * weights are never changed. Default: none.
   *
   * @example [{ folder: './Qwen3-0.6B', lora: { rank: 16 }, contextLength: 4096 }]
   */
  checkpoints?: readonly CheckpointOptions[];
  /** Called while a checkpoint is fetched from the hub. Default: nothing. */
  onFetch?: (progress: FetchProgress) => void;
  /**
   * `onnxruntime-node`, `onnxruntime-web`, or `auto`, which takes `onnxruntime-node` when it can be loaded and the
   * slower `onnxruntime-web` otherwise. Both are optional peer dependencies: install one, or creating the engine fails
   * with the code `runtime_missing`. Default: `MARTINGALE_RUNTIME`, else `auto`.
   */
  runtime?: RuntimeChoice;
  /**
   * Where checkpoints are sampled and trained. `webgpu` is the graphics card, by Metal, Direct3D 12 or Vulkan: it needs
   * `onnxruntime-node`, and a copy of the weights on the card for sampling and one for training. Without a usable card,
   * creating the engine fails with the code `device_missing`. The tiny models stay on the CPU. Default `cpu`.
   */
  device?: Device;
  /** Cores that training uses. Default: the machine's cores, at most 4. */
  threads?: number;
  /**
   * Cores that sampling uses: a thread on each for the tiny models, one thread on all of them for checkpoints, whose
   * weights it reads once for each step. Default: `threads`.
   */
  samplerThreads?: number;
  /**
   * Replies that one thread samples at once from one set of weights; others wait. A beam search counts its width.
   * Default 256.
   */
  largestBatch?: number;
  /**
   * Memory for keys and values of ended sequences, in bytes, for all sets of weights together. The least recently used
   * are dropped first; 0 keeps none. With checkpoints, one half is for them. Default 256 MiB; with checkpoints an eighth
   * of the memory, if that is more. Here and below, the memory is the machine's, or its
   * container's limit.
   */
  prefixCacheBytes?: number;
  /**
   * Memory that training a checkpoint may use beside its weights, in bytes. A job with a sequence that does not fit alone
   * is refused before it trains, with what it needs. Default: half of the memory.
   */
  trainingBytes?: number;
  /**
   * Logits processors that requests may use, by name. Each value is the URL or the file path of a module whose default
   * export is a `LogitsProcessorFactory`. The module is loaded in this thread and in the engine's threads:
   * `{ 'my.Processor': new URL('./my-processor.ts', import.meta.url) }`. Default: none.
   */
  logitsProcessors?: Readonly<Record<string, string | URL>>;
  /**
   * Heap of each thread, in bytes. A thread that needs more is ended: its calls in flight fail with
   * `worker_died`, and a new thread replaces it. Weights and caches are not on the heap. Default: a quarter of the
   * memory, at least 512 MiB and at most 4 GiB.
   */
  threadHeapBytes?: number;
  /**
   * How long a thread may spend in one piece of JavaScript, such as a logits processor, before it is ended in the same
   * way. Runs of the model do not count. Default 60000.
   */
  threadTimeoutMs?: number;
}

/**
 * The engine that runs anywhere: transformers on ONNX Runtime, sampling and training in worker threads. With the tiny
 * models the same seed gives the same tokens whatever else is running, and training repeats bit for bit on the same
 * machine, also with another number of threads. With checkpoints the same seed gives the same tokens at the same load.
 *
 * `close` fails all calls in flight and all later ones at once, with the code `engine_closed`. It resolves when the
 * threads have ended: each completes its current run of the model and the checkpoint it is writing, and is terminated
 * when that takes longer than ten seconds.
 */
export async function createEmbeddedEngine(options: EmbeddedEngineOptions = {}): Promise<Engine> {
  const {
    checkpoints = [],
    runtime = runtimeOfEnvironment(),
    device = 'cpu',
    threads = Math.min(4, availableParallelism()),
    samplerThreads = threads,
    largestBatch = 256,
    prefixCacheBytes = defaultPrefixBytes(checkpoints.length > 0),
    trainingBytes = defaultTrainingBytes(),
    logitsProcessors = {},
    threadHeapBytes = defaultHeapBytes(),
    threadTimeoutMs = 60_000,
  } = options;
  const wholeNumbers = {
    threads,
    samplerThreads,
    largestBatch,
    trainingBytes,
    threadHeapBytes,
    threadTimeoutMs,
  };
  for (const [name, value] of Object.entries(wholeNumbers))
    if (!Number.isInteger(value) || value < 1)
      throw new EngineError('bad_option', `${name} must be a whole number of at least 1, not ${value}`);
  if (!Number.isSafeInteger(prefixCacheBytes) || prefixCacheBytes < 0)
    throw new EngineError(
      'bad_option',
      `prefixCacheBytes must be a whole number, 0 or more, not ${prefixCacheBytes}`,
    );
  checkDevice(device, checkpoints.length);
  const modules = processorModules(logitsProcessors);
  const processors = await loadProcessors(modules);
  const opened = await openCheckpoints(checkpoints, options.onFetch);
  const settings = {
    runtime,
    device,
    checkpoints: opened.map(({ model }) => model),
    largestBatch,
    prefixCacheBytes,
    trainingBytes,
    logitsProcessors: modules,
    threadHeapBytes,
    threadTimeoutMs,
  };
  const engine = new EmbeddedEngine(
    { logitsProcessors: [...processors.keys()], languages: opened.map(({ language }) => language) },
    { ...settings, threads: samplerThreads },
    { ...settings, threads },
  );
  const started = await engine.start();
  if (runtime === 'auto' && started === 'onnxruntime-web')
    process.emitWarning(
      `onnxruntime-node is not installed or cannot be loaded here, so the embedded engine runs on onnxruntime-web, which is slower. Run: ${installCommand('onnxruntime-node')} - or set MARTINGALE_RUNTIME=onnxruntime-web to hide this warning.`,
      { type: 'MartingaleWarning', code: 'slow_runtime' },
    );
  return engine;
}

class EmbeddedEngine implements Engine {
  readonly name = 'embedded';
  readonly baseModels: readonly BaseModel[];
  readonly logitsProcessors: readonly string[];
  readonly #models: BaseModels;
  /** By the name of a checkpoint; null for the tiny models, which share theirs. */
  readonly #texts = new Map<string | null, { language: Language; checker: ConstraintChecker }>();
  /** By the kind of the base model. */
  readonly #samplers = new Map<EmbeddedBaseModel['kind'], SamplerThreads>();
  readonly #trainer: TrainerThreads;
  /** One job at a time: services that share the engine wait for each other. */
  readonly #training = new FairMutex({
    maxWaiting: 1000,
    maxWaitMs: maxTimerMs,
    refusal: () =>
      new EngineError('training_busy', 'too many jobs wait for the engine to train; retry later'),
  });

  /** `languages`: of the checkpoints, in their order. */
  constructor(
    { logitsProcessors, languages }: { logitsProcessors: readonly string[]; languages: readonly Language[] },
    sampler: WorkerSettings,
    trainer: WorkerSettings,
  ) {
    const { checkpoints } = sampler;
    this.#models = new BaseModels(checkpoints);
    this.baseModels = this.#models.all.map(toBaseModel);
    this.logitsProcessors = logitsProcessors;
    const kinds = checkpoints.length > 0 ? (['tiny', 'checkpoint'] as const) : (['tiny'] as const);
    const prefixCacheBytes = Math.floor(sampler.prefixCacheBytes / kinds.length);
    for (const kind of kinds)
      this.#samplers.set(kind, new SamplerThreads({ ...sampler, prefixCacheBytes }, kind));
    this.#texts.set(null, { language: tinyLanguage(), checker: new ConstraintChecker() });
    for (const [index, { id, folder }] of checkpoints.entries())
      this.#texts.set(id, {
        language: languages[index] as Language,
        checker: new ConstraintChecker({ folder }),
      });
    this.#trainer = new TrainerThreads(trainer);
  }

  /**
   * Starts the threads and tests the graphs of the checkpoints, so that a missing runtime and one that miscomputes them
   * are reported at once; returns the name of their runtime.
   */
  async start(): Promise<string> {
    try {
      const [runtime] = await Promise.all([
        ...[...this.#samplers.values()].map((sampler) => sampler.start()),
        this.#trainer.start(),
      ]);
      return runtime;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  tokenizer(baseModel: string): Tokenizer {
    return this.#textOf(baseModel).language.tokenizer;
  }

  chatFormat(baseModel: string): ChatFormat {
    return this.#textOf(baseModel).language.format;
  }

  async checkConstraint(baseModel: string, constraint: Constraint, caller?: Caller): Promise<void> {
    await this.#textOf(baseModel).checker.plan(constraint, caller);
  }

  async generate(request: GenerateRequest, onDelta?: CallOptions['onDelta']): Promise<Generation> {
    const stream = onDelta !== undefined;
    const call = { type: 'generate', request: await this.#plan(request), stream } as const;
    return this.#samplerOf(request.weights).call(call, { signal: request.signal, onDelta });
  }

  async beamSearch(request: BeamSearchRequest): Promise<Generation[]> {
    const { width, lengthPenalty, signal } = request;
    if (!Number.isInteger(width) || width < 1)
      throw new EngineError('bad_width', `width must be a whole number of at least 1, not ${width}`);
    if (!Number.isFinite(lengthPenalty))
      throw new EngineError('bad_length_penalty', `lengthPenalty must be a number, not ${lengthPenalty}`);
    const sampler = this.#samplerOf(request.weights);
    return sampler.call({ type: 'search', request: await this.#plan(request) }, { signal });
  }

  /**
   * Checks a request for replies, limits its length to the context, and compiles its constraint: not in the thread that
   * samples, because all other requests would wait.
   */
  async #plan<Request extends Omit<GenerateRequest, 'seed'>>(request: Request) {
    const { constraint, signal, ...rest } = request;
    const model = this.#models.find(rest.weights.baseModel);
    const { contextLength } = model;
    checkPrompt(rest, model, contextLength - 1);
    return {
      ...rest,
      maxTokens: Math.min(rest.maxTokens, contextLength - rest.prompt.length),
      plan: constraint && (await this.#textOf(model.id).checker.plan(constraint, request)),
    };
  }

  async scorePrompt({ signal, ...request }: ScorePromptRequest): Promise<(ScoredToken | null)[]> {
    const model = this.#models.find(request.weights.baseModel);
    checkPrompt(request, model, model.contextLength);
    return this.#samplerOf(request.weights).call({ type: 'score', request }, { signal });
  }

  async exportWeights(weights: Weights): Promise<ExportedWeights> {
    return exportWeights(this.#models, weights);
  }

  async encodeReplies(baseModel: string, replies: Reply[]): Promise<number[][]> {
    this.#models.find(baseModel);
    return this.#trainer.encodeReplies(baseModel, replies);
  }

  async train(request: TrainRequest): Promise<void> {
    this.#models.find(request.from.baseModel);
    await this.#training.run(() => this.#trainer.train(request), { signal: request.signal });
  }

  /** Does not wait for the threads, which release the weights once nothing samples from them. */
  async drop(weights: Weights): Promise<void> {
    // Models of a checkpoint that this engine was not given can be deleted too.
    if (this.baseModels.some(({ id }) => id === weights.baseModel)) this.#samplerOf(weights).drop(weights);
  }

  async check(): Promise<void> {
    await Promise.all([...this.#samplers.values()].map((sampler) => sampler.check()));
  }

  async close(): Promise<void> {
    const checkers = [...this.#texts.values()].map(({ checker }) => checker);
    const closing = [...this.#samplers.values(), this.#trainer, ...checkers];
    await Promise.all(closing.map((one) => one.close()));
  }

  #textOf(baseModel: string): { language: Language; checker: ConstraintChecker } {
    const { kind, id } = this.#models.find(baseModel);
    return this.#texts.get(kind === 'tiny' ? null : id) as { language: Language; checker: ConstraintChecker };
  }

  #samplerOf({ baseModel }: Weights): SamplerThreads {
    return this.#samplers.get(this.#models.find(baseModel).kind) as SamplerThreads;
  }
}

function checkDevice(device: Device, checkpoints: number): void {
  if (!devices.includes(device))
    throw new EngineError('bad_option', `device must be ${devices.join(' or ')}, not ${showValue(device)}`);
  if (device !== 'cpu' && checkpoints === 0)
    throw new EngineError(
      'bad_option',
      `the device ${device} is for checkpoints, and there are none: the tiny models run on the CPU. Add a checkpoint, or leave the device out`,
    );
}

/** What is told of a base model: not its weights. */
function toBaseModel(model: EmbeddedBaseModel): BaseModel {
  const { id, contextLength, vocabularySize, parameters, defaults } = model;
  return { id, contextLength, vocabularySize, parameters, defaults };
}

/** Checks a prompt. An id outside the vocabulary would fail the run of the model, and with it the whole batch. */
function checkPrompt(
  { prompt }: Pick<GenerateRequest, 'prompt'>,
  { vocabularySize }: BaseModel,
  maxTokens: number,
): void {
  if (prompt.length === 0 || prompt.length > maxTokens)
    throw new EngineError(
      'bad_prompt',
      `a prompt must have 1 to ${maxTokens} tokens; this one has ${prompt.length}`,
    );
  const index = prompt.findIndex((id) => !(Number.isInteger(id) && id >= 0 && id < vocabularySize));
  if (index >= 0)
    throw new EngineError(
      'bad_prompt',
      `token ${prompt[index]} of the prompt, at position ${index}, is outside the vocabulary; ids are 0 to ${vocabularySize - 1}`,
    );
}
