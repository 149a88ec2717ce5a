import { ConstraintChecker } from '../../language/grammars.ts';
import type {
  ChatFormat,
  Constraint,
  Language,
  Reply,
  SharedLanguage,
  Tokenizer,
} from '../../language/index.ts';
import { maxTimerMs, untilAborted } from '../../util/deadline.ts';
import { FairMutex } from '../../util/fair-mutex.ts';
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
import { builtInLanguage } from './built-in/built-in-language.ts';
import { exportWeights } from './export-weights.ts';
import { checkpointPrefixBytes } from './memory.ts';
import { SamplerThreads } from './sampler/sampler-threads.ts';
import type { CallOptions } from './threads/running-thread.ts';
import type { WorkerSettings } from './threads/worker-messages.ts';
import { TrainerThreads } from './trainer/trainer-threads.ts';

/** The engine of `createEmbeddedEngine`, whose options are checked. */
export class EmbeddedEngine implements Engine {
  readonly name = 'embedded';
  readonly baseModels: readonly BaseModel[];
  readonly logitsProcessors: readonly string[];
  readonly #models: BaseModels;
  readonly #texts = new Map<SharedLanguage, { language: Language; checker: ConstraintChecker }>();
  /** Key: whether the base model is small. */
  readonly #samplers = new Map<boolean, SamplerThreads>();
  readonly #trainer: TrainerThreads;
  /** One job at a time: services that share the engine wait for each other. */
  readonly #training = new FairMutex({
    maxWaiting: 1000,
    maxWaitMs: maxTimerMs,
    refusal: () =>
      new EngineError('training_busy', 'Too many jobs wait for the engine to train. Retry later.'),
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
    const { prefixCacheBytes: all } = sampler;
    const [sizes, prefixCacheBytes] =
      checkpoints.length > 0 ? [[true, false], checkpointPrefixBytes(all)] : [[true], all];
    for (const isSmall of sizes)
      this.#samplers.set(isSmall, new SamplerThreads({ ...sampler, prefixCacheBytes }, isSmall));
    const builtIn = builtInLanguage();
    this.#addText(builtIn.shared, builtIn);
    for (const [index, { language }] of checkpoints.entries())
      this.#addText(language, languages[index] as Language);
    this.#trainer = new TrainerThreads(trainer);
  }

  /**
   * Starts a thread and tests the graphs of the checkpoints, so that a missing runtime and one that miscomputes them are
   * reported at once; returns the name of the runtime. The tiny models' threads beside checkpoints, and the training of an
   * engine without checkpoints, start when they are needed. When it fails, or the signal aborts, it closes the engine.
   */
  async start(signal?: AbortSignal): Promise<string> {
    try {
      const [sampler] = [...this.#samplers.values()].slice(-1) as [SamplerThreads];
      const started = Promise.all([sampler.start(), this.#trainer.test(signal)]);
      const [runtime] = await untilAborted(started, signal);
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

  sharedLanguage(baseModel: string): SharedLanguage {
    return this.#models.find(baseModel).language;
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
      throw new EngineError('bad_width', `\`width\` is ${width}. Pass a whole number of at least 1.`);
    if (!Number.isFinite(lengthPenalty))
      throw new EngineError('bad_length_penalty', `\`lengthPenalty\` is ${lengthPenalty}. Pass a number.`);
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

  async exportWeights(weights: Weights, options?: { signal?: AbortSignal }): Promise<ExportedWeights> {
    return exportWeights(this.#models, weights, options);
  }

  async encodeReplies(
    baseModel: string,
    replies: readonly Reply[],
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<number[][]> {
    const sampler = this.#samplerOf({ baseModel, folder: null });
    return sampler.call({ type: 'encode', baseModel, replies }, { signal });
  }

  async train(request: TrainRequest): Promise<void> {
    const { baseModel } = request.from;
    const trained = { baseModel, folder: request.folder };
    const { isSmall } = this.#models.find(baseModel);
    // A job that failed at its end runs again, into the same folder.
    await this.drop(trained);
    await this.#training.run(() => this.#trainer.train(request), { signal: request.signal });
    // The next rollouts find the weights loaded. Large ones may need memory that others still use.
    if (isSmall) this.#samplerOf(trained).load(trained);
  }

  /** Does not wait for the threads, which release the weights once nothing samples from them. */
  async drop(weights: Weights): Promise<void> {
    // Models of a checkpoint that this engine was not given can be deleted too.
    if (!this.baseModels.some(({ id }) => id === weights.baseModel)) return;
    this.#samplerOf(weights).drop(weights);
    this.#trainer.drop(weights);
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
    const { language } = this.#models.find(baseModel);
    return this.#texts.get(language) as { language: Language; checker: ConstraintChecker };
  }

  #addText(shared: SharedLanguage, language: Language): void {
    this.#texts.set(shared, { language, checker: new ConstraintChecker({ language: shared }) });
  }

  #samplerOf({ baseModel }: Weights): SamplerThreads {
    return this.#samplers.get(this.#models.find(baseModel).isSmall) as SamplerThreads;
  }
}

/** A base model as callers see it, without its weights. */
function toBaseModel(model: EmbeddedBaseModel): BaseModel {
  const { id, contextLength, vocabularySize, parameters, defaults } = model;
  return { id, contextLength, vocabularySize, parameters, defaults };
}

/**
 * Checks a prompt. An id outside the vocabulary would fail the whole batch of a checkpoint, and a tiny model would take
 * other numbers for its embedding: nothing below checks ids again.
 */
function checkPrompt(
  { prompt }: Pick<GenerateRequest, 'prompt'>,
  { vocabularySize }: BaseModel,
  maxTokens: number,
): void {
  if (prompt.length === 0 || prompt.length > maxTokens)
    throw new EngineError(
      'bad_prompt',
      `A prompt must have 1 to ${maxTokens} tokens. This one has ${prompt.length}.`,
    );
  const index = prompt.findIndex((id) => !(Number.isInteger(id) && id >= 0 && id < vocabularySize));
  if (index >= 0)
    throw new EngineError(
      'bad_prompt',
      `Token ${prompt[index]} of the prompt, at position ${index}, is outside the vocabulary. Ids are 0 to ${vocabularySize - 1}.`,
    );
}
