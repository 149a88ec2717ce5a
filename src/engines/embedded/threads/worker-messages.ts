import type { MessagePort } from 'node:worker_threads';
import { MartingaleError } from '../../../contract/basics.ts';
import type { ConstraintPlan } from '../../../language/grammars.ts';
import type { Reply } from '../../../language/index.ts';
import { messageOf } from '../../../util/error.ts';
import {
  type BeamSearchRequest,
  EngineError,
  type GenerateRequest,
  type GenerationDelta,
  type ScorePromptRequest,
  type TrainingBatch,
  type Weights,
} from '../../engine.ts';
import type { EmbeddedBaseModel } from '../base-models.ts';
import type { ProcessorModules } from '../extensions/logits-processors.ts';
import type { Device, RuntimeChoice } from '../runtime.ts';
import type { WatchdogStart } from './watchdog.ts';

export interface WorkerSettings {
  runtime: RuntimeChoice;
  /** Where the thread runs checkpoints. */
  device: Device;
  checkpoints: readonly EmbeddedBaseModel[];
  threads: number;
  largestBatch: number;
  prefixCacheBytes: number;
  /** What training a checkpoint may use beside its weights. */
  trainingBytes: number;
  logitsProcessors: ProcessorModules;
  /** Heap of a thread, in bytes. */
  threadHeapBytes: number;
  /** How long a thread may spend in one piece of JavaScript. */
  threadTimeoutMs: number;
}

/** The `workerData` of a worker. */
export interface WorkerStart {
  settings: WorkerSettings;
  /** The shared memory of its `NativeGate`. */
  gate: SharedArrayBuffer;
  /** The shared memory of the process's `DeviceLock`. */
  deviceLock: SharedArrayBuffer;
  watchdog: WatchdogStart;
}

/** A worker's first message. Its later messages are lists of `WorkerAnswer`. */
export interface WorkerReady {
  runtime: string;
}

/** `close` is the last message to a thread: it completes its current step, releases everything and exits. */
export type WorkerRequest<Call> =
  | { type: 'call'; id: number; call: Call }
  | { type: 'cancel'; id: number }
  | { type: 'close' };

/** A part of the answer to a call, or its end. A cancelled call may get no end. */
export type WorkerAnswer = { id: number } & (
  | { delta: GenerationDelta }
  | { result: unknown }
  | { failure: WorkerFailure }
);

/** An error in a message between threads. */
export interface WorkerFailure {
  code: string;
  message: string;
  /** The code of a failed system call, such as ENOSPC. */
  systemCode?: string;
}

/** A request to the sampler, with its constraint compiled. */
type Planned<Request> = Omit<Request, 'signal' | 'constraint'> & { plan: ConstraintPlan | null };

/** A call that samples or scores, answered by a `Generation`, several of them, or scored tokens. */
export type SamplingCall =
  | { type: 'generate'; request: Planned<GenerateRequest>; stream: boolean }
  | { type: 'search'; request: Planned<BeamSearchRequest> }
  | { type: 'score'; request: Omit<ScorePromptRequest, 'signal'> };

/** Encodes replies as they would have been sampled: in a thread that samples, because a step holds the trainer's. */
export interface EncodeCall {
  type: 'encode';
  baseModel: string;
  replies: readonly Reply[];
}

export type SamplerCall =
  | SamplingCall
  | EncodeCall
  | { type: 'load'; weights: Weights }
  | { type: 'drop'; weights: Weights };

/** Connects a thread that runs the training graphs with the trainer of one job. */
export interface GraphCall {
  baseModel: string;
  /** The model that the job trains, if this is its teacher: its graphs stay. */
  beside?: string | undefined;
  port: MessagePort;
}

/**
 * The calls of a job are, in this order:
 * - `begin`
 * - `teacher`, only for a teacher of another base model, before the first batch that needs it
 * - for each batch its `datums`, in parts, and its `step`
 * - `save`, or `abandon`, which does nothing to a later job
 */
export type TrainerCall =
  /** Checks the graphs of a checkpoint. */
  | { type: 'self-test'; baseModel: string }
  | { type: 'begin'; job: number; from: Weights; graphs: MessagePort[] }
  | { type: 'teacher'; baseModel: string; graphs: MessagePort[] }
  | { type: 'datums'; datums: TrainingBatch['datums'] }
  | { type: 'step'; batch: Omit<TrainingBatch, 'datums'>; scratchFile: string | undefined }
  | { type: 'save'; folder: string }
  | { type: 'abandon'; job: number }
  | { type: 'drop'; weights: Weights };

/** The messages of V8 and the runtime when an allocation fails. These errors have no code. */
const outOfMemory = /bad_alloc|bad allocation|failed to allocate memory|allocation failed|out of memory/i;

/** Converts an error for a message to another thread. */
export function toFailure(error: unknown): WorkerFailure {
  const systemCode = systemCodeOf(error);
  const system = systemCode === undefined ? {} : { systemCode };
  if (MartingaleError.isInstance(error)) return { code: error.code, message: error.message, ...system };
  const message = messageOf(error);
  if (systemCode === undefined && outOfMemory.test(message))
    return {
      code: 'out_of_memory',
      message: `An engine thread ran out of memory (${message}). Send the request again, or a smaller one.`,
    };
  return { code: 'engine_failed', message, ...system };
}

export function fromFailure({ code, message, systemCode }: WorkerFailure): EngineError {
  if (systemCode === undefined) return new EngineError(code, message);
  return new EngineError(code, message, { cause: Object.assign(new Error(message), { code: systemCode }) });
}

/** The code of a failed system call, in the error or one of its causes. */
function systemCodeOf(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if ('syscall' in cause && 'code' in cause && typeof cause.code === 'string') return cause.code;
  return undefined;
}
