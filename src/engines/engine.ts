import type { Datum, LossConfig } from '../learning/index.ts';

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

/** Text to token ids and back. Special tokens never come out of `encode`: text cannot forge a role or an end. */
export interface Tokenizer {
  readonly vocabularySize: number;
  /** Special tokens by their text, such as `<|end|>`. */
  readonly special: ReadonlyMap<string, number>;
  encode(text: string): number[];
  /** Bytes that are no valid UTF-8 become U+FFFD; special tokens decode to nothing. */
  decode(tokens: readonly number[]): string;
  /** The bytes of one token; empty for a special token. */
  bytes(token: number): Uint8Array;
  /** A token as `logprobs` shows it: its text, or the text of a special token. */
  text(token: number): string;
}

/** How a base model writes conversations. */
export interface ChatFormat {
  /** Jinja source over `messages`, `tools`, `add_generation_prompt` and `documents`. */
  template: string;
  /** Sampled at the end of every reply. */
  endToken: number;
  /** Sampled before each tool call, which is then written `name{"argument":"value"}`. */
  callToken: number;
}

export type JsonSchema = Record<string, unknown>;

/** A language over text. JSON is written without spaces, as the embedded models' templates write it. */
export type Grammar =
  | { type: 'text' }
  | { type: 'json_object' }
  | { type: 'json_schema'; schema: JsonSchema }
  | { type: 'regex'; pattern: string }
  | { type: 'choice'; choices: string[] }
  /** One of the names, followed at once by JSON of its schema. */
  | { type: 'named_json'; alternatives: { name: string; schema: JsonSchema }[] };

/**
 * What a reply may be: one branch, then its end. A branch with `open` begins with that special token. After a
 * branch that repeats further ones that repeat may follow, and a `text` branch may be left for one at any point.
 * Plain data, so that a hash names it and it crosses threads.
 */
export interface Constraint {
  branches: { open: number | null; grammar: Grammar; repeat: boolean }[];
}

/**
 * The cut-offs of a sampling distribution, applied in the order temperature, topK, topP, minP. Temperature 0 takes
 * the likeliest token; its log-probabilities are those at temperature 1.
 */
export interface SamplingParameters {
  temperature: number;
  /** Smallest set of tokens whose probability reaches this; 1 is off. */
  topP: number;
  /** The k likeliest tokens; 0 is off. */
  topK: number;
  /** Tokens at least this fraction as likely as the likeliest; 0 is off. */
  minP: number;
}

export interface GenerateRequest {
  weights: Weights;
  prompt: readonly number[];
  sampling: SamplingParameters;
  /** The same request with the same seed gives the same tokens, whatever else the engine is doing. */
  seed?: number | bigint;
  maxTokens: number;
  stopStrings: readonly string[];
  stopTokens: readonly number[];
  constraint: Constraint | null;
  /** How many alternatives to report for each token; 0 for none. */
  topLogprobs: number;
  signal?: AbortSignal;
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

/** A reply of training data: text and special tokens, in order, without the end token. */
export interface Reply {
  parts: (string | number)[];
  constraint: Constraint | null;
}

/** Data of one optimizer step. */
export interface TrainingBatch {
  datums: Datum<Constraint>[];
  loss: LossConfig;
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
  tokenizer(baseModel: string): Tokenizer;
  chatFormat(baseModel: string): ChatFormat;
  /** Throws an `EngineError` that says what is wrong with a constraint, before anything is sampled under it. */
  checkConstraint(baseModel: string, constraint: Constraint): Promise<void>;
  /** Samples one reply. `onDelta` gets the tokens as they come. Rejects with the signal's reason when aborted. */
  generate(request: GenerateRequest, onDelta?: (delta: GenerationDelta) => void): Promise<Generation>;
  /** Token ids of replies as they would have been sampled under their constraints, the end token included. */
  encodeReplies(baseModel: string, replies: Reply[]): Promise<number[][]>;
  /** Takes one optimizer step a batch, then writes the checkpoint durably (fsync before the promise resolves). */
  train(request: TrainRequest): Promise<void>;
  /** Forgets what is held of a checkpoint whose folder is about to go. */
  drop(weights: Weights): Promise<void>;
  close(): Promise<void>;
}
