import { MartingaleError } from '../contract/basics.ts';
import type { ChatFormat, Constraint, Reply, SharedLanguage, Tokenizer } from '../language/index.ts';
import type { Datum, LossConfig, SamplingParameters } from '../learning/index.ts';
import type { Caller } from '../util/fair-queue.ts';

export type { ProcessorCall, SamplingParameters } from '../learning/index.ts';
export type { Caller } from '../util/fair-queue.ts';

/** A model that training starts from. */
export interface BaseModel {
  id: string;
  /** Name of the engine that has it, where several are one. Default: the engine's. */
  engine?: string;
  /** Longest sequence, in tokens, prompt and reply together. */
  contextLength: number;
  vocabularySize: number;
  /** Null if not known. */
  parameters: number | null;
  /**
   * Whether another server samples and trains it, which tells the log-probabilities of the taken tokens alone, and knows
   * neither cache salts nor priorities. Then replies are not constrained (calls that it begins by itself are free text),
   * and jobs have no entropy bonus. Default false.
   */
  isRemote?: boolean;
  /** Used for options that a job's request leaves out. */
  defaults: { rlLearningRate: number; sftLearningRate: number; sftBatchSize: number };
}

/** Weights an engine can sample from: an untrained base model (`folder` null) or one of its checkpoints. */
export interface Weights {
  baseModel: string;
  /** Absolute path of the checkpoint's folder, as `train` wrote it. */
  folder: string | null;
}

export interface GenerateRequest {
  weights: Weights;
  prompt: readonly number[];
  sampling: SamplingParameters;
  /** A request that is repeated with its seed gets the same tokens. An engine says whether its load may change them. */
  seed?: number | bigint;
  maxTokens: number;
  /** Texts that end the reply, once it has `sampling.minTokens.count` tokens. */
  stopStrings: readonly string[];
  stopTokens: readonly number[];
  constraint: Constraint | null;
  /** Number of alternatives to report for each token; 0 for none. */
  topLogprobs: number;
  /**
   * Waiting requests with the lowest value start first. Among equals, tenants take turns, each with its oldest request.
   * An engine may start a request earlier when it has waited long.
   */
  priority: number;
  /** Computed prefixes are shared only between requests with the same salt; null is one more salt. */
  cacheSalt: string | null;
  /**
   * The tenant the request counts for. Among waiting requests with the same weights and priority, tenants take turns.
   * Requests without this field share one unnamed tenant.
   */
  tenant?: string;
  signal?: AbortSignal;
}

/**
 * Searches for the likeliest replies instead of sampling them. The score of a reply is the sum of its tokens'
 * log-probabilities (with the end token) divided by (its number of tokens, without the end token) ^ lengthPenalty,
 * the widely used simpler form of Wu et al. 2016 (arXiv:1609.08144). An empty reply counts as one token.
 * Log-probabilities come from the distribution that sampling would draw from.
 */
export interface BeamSearchRequest extends Omit<GenerateRequest, 'seed'> {
  /** Beams kept and replies returned; fewer when a constraint allows fewer. All replies have different tokens. */
  width: number;
  lengthPenalty: number;
}

export interface ScorePromptRequest
  extends Pick<GenerateRequest, 'weights' | 'prompt' | 'tenant' | 'signal'>,
    Partial<Pick<GenerateRequest, 'priority'>> {
  /** Number of likeliest tokens to report for each position, besides the prompt's own token. */
  top: number;
}

/** A prompt token under the model's distribution over the whole vocabulary at temperature 1. */
export interface ScoredToken extends TokenLogprob {
  /** 1 for the likeliest token. */
  rank: number;
  /** The likeliest tokens at this position, likeliest first. */
  top: TokenLogprob[];
}

/** A checkpoint in one file. */
export interface ExportedWeights {
  /** What the file's name ends with: `.safetensors`, or `.tar` for several files in one. */
  extension: string;
  bytes: number;
  chunks: AsyncIterable<Uint8Array>;
}

export interface TokenLogprob {
  token: number;
  logprob: number;
}

/** Tokens of a reply in order, each with its log-probability under the distribution it was sampled from. */
export interface GenerationDelta {
  tokens: number[];
  logprobs: number[];
  /** For each token its alternatives, likeliest first; empty lists when none were requested. */
  topLogprobs: TokenLogprob[][];
}

export interface Generation extends GenerationDelta {
  finishReason: 'stop' | 'length';
  /** The stop string or stop token that ended the reply; null for the end token and for `length`. */
  stop: string | number | null;
  /** Prompt tokens that were taken from a cache instead of computed. */
  cachedTokens: number;
}

/** The data of one optimizer step. */
export interface TrainingBatch {
  datums: Datum<Constraint>[];
  loss: LossConfig;
  /**
   * The weights that the KL penalty of `loss` compares with; null when there is no KL penalty. Their base model may be
   * another one with the same vocabulary, if `checkTeacher` does not refuse it.
   */
  reference: Weights | null;
  learningRate: number;
}

/** What a step found of the sampled tokens of its batch: all spans of all datums, in order. */
export interface TrainedTokens {
  /** Log-probability under the weights before the update (natural logarithm); NaN for a token that did not train. */
  logprobs: Float32Array;
  /** 1 where clip, cap, mask or truncation changed the loss of the token. */
  clipped: Uint8Array;
}

export interface TrainRequest {
  from: Weights;
  /** Absolute path of the new checkpoint. It must not exist yet, and it appears completely or not at all. */
  folder: string;
  /** Read one at a time, each when its step begins. */
  batches: AsyncIterable<TrainingBatch> | Iterable<TrainingBatch>;
  /**
   * Absolute path of a file in which the engine may keep what it has finished of a step, for a later call with the same
   * request after this process was killed. The caller removes it, and `<path>.partial`, when it will not call again.
   */
  scratchFile?: string;
  /** Called after each optimizer step with its metrics and, in reinforcement learning, what it found of the tokens. */
  onStep: (metrics: Record<string, number>, tokens?: TrainedTokens) => void;
  /** Called when the training begins to wait for something outside this process, with what it is. */
  onWait?: (reason: string) => void;
  signal?: AbortSignal;
}

/**
 * Samples from models and trains them. An engine knows tokens and weights, but not HTTP, chat or rewards.
 * It refuses what it does not support with an `EngineError` that names the option.
 */
export interface Engine {
  readonly name: string;
  readonly baseModels: readonly BaseModel[];
  /** Names of the logits processors that requests may use. */
  readonly logitsProcessors: readonly string[];
  tokenizer(baseModel: string): Tokenizer;
  chatFormat(baseModel: string): ChatFormat;
  /** Both, for a thread that encodes long texts. Default: they are encoded where requests are answered. */
  sharedLanguage?(baseModel: string): SharedLanguage | undefined;
  /**
   * Checks a constraint before anything is sampled under it. Rejects with the reason of the caller's signal when it is
   * aborted while the check waits.
   *
   * @throws EngineError that says what is wrong with the constraint, or `constraints_busy` when too many constraints
   * wait for their check; the constraint may then be valid.
   */
  checkConstraint(baseModel: string, constraint: Constraint, caller?: Caller): Promise<void>;
  /** Samples one reply. `onDelta` gets tokens as they are sampled. Rejects with the signal's reason when aborted. */
  generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void): Promise<Generation>;
  /** Finds the `width` best replies, best first. Rejects with the signal's reason when aborted. */
  beamSearch(request: BeamSearchRequest): Promise<Generation[]>;
  /** How likely each token of a prompt is after the tokens before it; null for the first token. */
  scorePrompt(request: ScorePromptRequest): Promise<(ScoredToken | null)[]>;
  /**
   * Encodes replies as they would have been sampled under their constraints, the end token included. Rejects with the
   * signal's reason when aborted.
   */
  encodeReplies(
    baseModel: string,
    replies: readonly Reply[],
    options?: { signal?: AbortSignal },
  ): Promise<number[][]>;
  /**
   * Takes one optimizer step per batch, then writes the checkpoint durably (fsync before the promise resolves). Jobs may
   * wait for each other.
   */
  train(request: TrainRequest): Promise<void>;
  /**
   * Refuses two base models whose log-probabilities training cannot compare. Default: any two with the same vocabulary
   * can be compared.
   *
   * @throws EngineError (`bad_reference`) that says why.
   */
  checkTeacher?(teacher: string, student: string): void;
  /**
   * Exports weights in a format that other tools read. Rejects with the signal's reason when aborted, as does reading the
   * chunks then.
   */
  exportWeights(weights: Weights, options?: { signal?: AbortSignal }): Promise<ExportedWeights>;
  /** Releases everything held of a checkpoint, before its folder is deleted. */
  drop(weights: Weights): Promise<void>;
  /** Rejects when the engine cannot sample at the moment. An engine without this method always can. */
  check?(): Promise<void>;
  close(): Promise<void>;
}

/** An engine does not support something, was called wrongly, or failed. */
export class EngineError extends MartingaleError {}
