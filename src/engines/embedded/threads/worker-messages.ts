import { MartingaleError } from '../../../contract/index.ts';
import type { Reply } from '../../../language/constraint/constraint.ts';
import type { ConstraintPlan } from '../../../language/grammar/compiler.ts';
import {
  type BeamSearchRequest,
  EngineError,
  type GenerateRequest,
  type Generation,
  type GenerationDelta,
  type ScoredToken,
  type ScorePromptRequest,
  type TrainingBatch,
  type Weights,
} from '../../engine.ts';
import type { ProcessorModules } from '../extensions/logits-processors.ts';
import type { RuntimeChoice } from '../runtime.ts';
import type { WatchdogStart } from './watchdog.ts';

/** Settings of the engine's worker threads. */
export interface WorkerSettings {
  runtime: RuntimeChoice;
  threads: number;
  largestBatch: number;
  prefixCacheBytes: number;
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
  watchdog: WatchdogStart;
}

/** A worker's first message. */
export interface WorkerReady {
  type: 'ready';
  /** The name of its runtime. */
  runtime: string;
}

/** An error in a message between threads. */
export interface WorkerFailure {
  code: string;
  message: string;
  /** The code of a failed system call, such as ENOSPC. */
  systemCode?: string;
}

/** A request to the sampler, with its constraint compiled. */
export type Planned<Request extends GenerateRequest | BeamSearchRequest> = Omit<
  Request,
  'signal' | 'constraint'
> & { plan: ConstraintPlan | null };

export type SamplerCall =
  | { type: 'generate'; request: Planned<GenerateRequest>; stream: boolean }
  | { type: 'search'; request: Planned<BeamSearchRequest> }
  | { type: 'score'; request: Omit<ScorePromptRequest, 'signal'> };

/** The last message to a thread: it completes its current step, releases everything and exits. */
export interface CloseRequest {
  type: 'close';
}

export type SamplerRequest =
  | (SamplerCall & { id: number })
  | { type: 'cancel'; id: number }
  | CloseRequest
  | { type: 'drop'; weights: Weights };

/** The result of a call to generate, search or score. */
export type SamplerResult = Generation | Generation[] | (ScoredToken | null)[];

/** The report of one step of the sampler: one message for all requests. */
export interface SamplerReport {
  deltas: { id: number; delta: GenerationDelta }[];
  finished: { id: number; result: SamplerResult }[];
  failed: { id: number; failure: WorkerFailure }[];
}

export type TrainerCall =
  | { type: 'begin'; from: Weights }
  /** The first datums of a large batch; the last ones come with its step. */
  | { type: 'datums'; datums: TrainingBatch['datums'] }
  | { type: 'step'; batch: TrainingBatch }
  | { type: 'save'; folder: string }
  | { type: 'abandon' }
  | { type: 'encode'; baseModel: string; replies: Reply[] };

/** `cancel` gets no reply: the step in progress fails soon, and so does every later one until the next `begin`. */
export type TrainerRequest = (TrainerCall & { id: number }) | { type: 'cancel' } | CloseRequest;

export type TrainerReply = { id: number; result: unknown } | { id: number; failure: WorkerFailure };

/** The messages of V8 and the runtime when an allocation fails. These errors have no code. */
const outOfMemory = /bad_alloc|bad allocation|failed to allocate memory|allocation failed|out of memory/i;

const outOfMemoryMessage = (message: string) =>
  `an engine thread could not get the memory that it needs (${message}); ask again, or for less at once`;

/** Converts an error for a message to another thread. */
export function toFailure(error: unknown): WorkerFailure {
  const systemCode = systemCodeOf(error);
  const system = systemCode === undefined ? {} : { systemCode };
  if (MartingaleError.isInstance(error)) return { code: error.code, message: error.message, ...system };
  const message = error instanceof Error ? error.message : String(error);
  if (systemCode === undefined && outOfMemory.test(message))
    return { code: 'out_of_memory', message: outOfMemoryMessage(message) };
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
