import { MartingaleError } from '../contract/index.ts';
import type { Constraint, Reply } from '../language/constraint/constraint.ts';
import type { ChatFormat, Tokenizer } from '../language/tokenizer/tokenizer.ts';
import type { Datum, LossConfig, SamplingParameters } from '../learning/index.ts';
import type { Caller } from '../util/fair-queue.ts';

export type { ProcessorCall, SamplingParameters } from '../learning/index.ts';
export type { Caller } from '../util/fair-queue.ts';

/** A model that training starts from. */
export interface BaseModel {
  id: string;
  /** Longest sequence, in tokens, prompt and reply together. */
  contextLength: number;
  vocabularySize: number;
  parameters: number;
  /** What a job takes where its request says nothing. */
  defaults: { rlLearningRate: number; sftLearningRate: number; sftBatchSize: number };
}

/** Weights an engine can sample from: a base model as it comes (`folder` null) or one of its checkpoints. */
export interface Weights {
  baseModel: string;
  /** Absolute path of the checkpoint's folder, as `train` wrote it. */
  folder: string | null;
}

export interface GenerateRequest {
  weights: Weights;
  prompt: readonly number[];
  sampling: SamplingParameters;
  /** The same request with the same seed gives the same tokens, whatever else the engine is doing. */
  seed?: number | bigint;
  maxTokens: number;
  /** Texts that end the reply, looked for once it has `sampling.minTokens.count` tokens. */
  stopStrings: readonly string[];
  stopTokens: readonly number[];
  constraint: Constraint | null;
  /** How many alternatives to report for each token; 0 for none. */
  topLogprobs: number;
  /**
   * Of requests that wait, those with the lowest priority value are taken first; among equals tenants take turns,
   * each with its oldest. An engine may take one before its turn that has waited long.
   */
  priority: number;
  /** Computed prefixes are shared only between requests of the same salt; null is a salt of its own. */
  cacheSalt: string | null;
  /**
   * Whom it counts for: of requests that wait, with the same weights and priority, tenants take turns. Absent: one
   * without a name.
   */
  tenant?: string;
  signal?: AbortSignal;
}

/**
 * Searches for the likeliest replies instead of sampling them. The score of a reply is the sum of its tokens'
 * log-probabilities (the end token's included) divided by (its number of tokens, without the end token) ^ lengthPenalty,
 * as in Wu et al. 2016 (arXiv:1609.08144) in its widely used simpler form; a reply of no tokens counts as one of one.
 * Log-probabilities are those of the distribution that sampling would draw from.
 */
export interface BeamSearchRequest extends Omit<GenerateRequest, 'seed'> {
  /** Beams kept, and replies returned: fewer where a constraint leaves fewer. They differ in their tokens. */
  width: number;
  lengthPenalty: number;
}

export interface ScorePromptRequest {
  weights: Weights;
  prompt: readonly number[];
  /** How many of the likeliest tokens to report for each place, beside the one that stands there. */
  top: number;
  signal?: AbortSignal;
}

/** A prompt token under the model's own distribution: the whole vocabulary at temperature 1. */
export interface ScoredToken extends TokenLogprob {
  /** 1 for the likeliest. */
  rank: number;
  /** The likeliest tokens there, likeliest first. */
  top: TokenLogprob[];
}

/** A checkpoint in one file. */
export interface ExportedWeights {
  /** `.safetensors` */
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
  /** Per token, likeliest first; empty lists when none were asked for. */
  topLogprobs: TokenLogprob[][];
}

export interface Generation extends GenerationDelta {
  finishReason: 'stop' | 'length';
  /** The stop string or stop token that ended it; null for the end token and for `length`. */
  stop: string | number | null;
  /** Prompt tokens whose computation was already there. */
  cachedTokens: number;
}

/** Data of one optimizer step. */
export interface TrainingBatch {
  datums: Datum<Constraint>[];
  loss: LossConfig;
  /** What the KL penalty of `loss` compares with; null where it has none. */
  reference: Weights | null;
  learningRate: number;
}

export interface TrainRequest {
  from: Weights;
  /** Where the new checkpoint goes: an absolute path that does not exist yet. It appears whole or not at all. */
  folder: string;
  /** Taken one at a time, as the steps go. */
  batches: AsyncIterable<TrainingBatch> | Iterable<TrainingBatch>;
  /** Called after each optimizer step with flat numbers. */
  onStep: (metrics: Record<string, number>) => void;
  signal?: AbortSignal;
}

/**
 * What samples from models and trains them. It knows tokens and weights, not HTTP, not chat, not rewards.
 * What it cannot do it refuses with an `EngineError` that names the option.
 */
export interface Engine {
  readonly name: string;
  readonly baseModels: readonly BaseModel[];
  /** Names of the logits processors that requests may ask for. */
  readonly logitsProcessors: readonly string[];
  tokenizer(baseModel: string): Tokenizer;
  chatFormat(baseModel: string): ChatFormat;
  /**
   * Throws an `EngineError` that says what is wrong with a constraint, before anything is sampled under it: with the
   * code `constraints_busy` where too many are waiting to be checked, and nothing may be wrong. Rejects with the
   * caller's signal's reason when that is aborted before its turn.
   */
  checkConstraint(baseModel: string, constraint: Constraint, caller?: Caller): Promise<void>;
  /** Samples one reply. `onDelta` gets the tokens as they come. Rejects with the signal's reason when aborted. */
  generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void): Promise<Generation>;
  /** The `width` best replies, best first. Ends as `generate` does. */
  beamSearch(request: BeamSearchRequest): Promise<Generation[]>;
  /** For each token of a prompt, how likely it was after those before it; null for the first. */
  scorePrompt(request: ScorePromptRequest): Promise<(ScoredToken | null)[]>;
  /** Token ids of replies as they would have been sampled under their constraints, the end token included. */
  encodeReplies(baseModel: string, replies: Reply[]): Promise<number[][]>;
  /** Takes one optimizer step a batch, then writes the checkpoint durably (fsync before the promise resolves). */
  train(request: TrainRequest): Promise<void>;
  /** The weights in a form that other tools read. */
  exportWeights(weights: Weights): Promise<ExportedWeights>;
  /** Forgets what is held of a checkpoint whose folder is about to go. */
  drop(weights: Weights): Promise<void>;
  /** Rejects where it cannot sample just now. An engine without it always can. */
  check?(): Promise<void>;
  close(): Promise<void>;
}

/** What an engine cannot do, or was asked wrongly. */
export class EngineError extends MartingaleError {}
