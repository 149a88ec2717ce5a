import { type Span, SpanKind } from '@opentelemetry/api';
import { type CallOptions, isRequestError } from '../client/index.ts';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  Choice,
  Tool,
} from '../contract/index.ts';
import type { EndpointModel, ModelRequest, StreamedAnswer, WholeAnswer } from '../endpoint/index.ts';
import { countModelCall, errorKind, recordModelCall, spanName, withSpan } from '../telemetry/index.ts';
import { currentTrajectory, runAsOwnCall, type Trajectory } from '../trajectory/index.ts';
import { Deadline, untilAborted } from '../util/deadline.ts';
import { describeReply, requestAttributes } from './call-attributes.ts';
import type { CallBudget, CallOutcome } from './call-budget.ts';
import type { CompletionSource } from './completion-source.ts';
import { StreamedChoice } from './completion-source.ts';
import { restoreSampled } from './conversation-tree.ts';
import { incompleteCompletion, ModelError } from './model-error.ts';
import type { OutsideCalls } from './outside-rollout.ts';
import { providerName } from './prompt-messages.ts';

/** Sampling settings of a model handle. They override the agent's settings in every call. */
export interface SamplingOverride {
  /** 0 is greedy, 1 samples the model's own distribution. */
  temperature?: number;
  topP?: number;
  topK?: number;
  minP?: number;
  /** Maximum number of tokens in a reply. */
  maxOutputTokens?: number;
}

export interface PolicyCallerOptions {
  completions: CompletionSource;
  /** Name of the model in chat requests. */
  name: string;
  override: SamplingOverride;
  record: boolean;
  sendTokenIds: boolean;
  budget: CallBudget | undefined;
  /** Handles calls outside of any rollout, if `record` is true. */
  outside: OutsideCalls;
  /** Deadline of a call in milliseconds, from getting its slot in the budget to its answer. */
  callTimeoutMs: number | undefined;
}

export interface PolicyRequest extends ModelRequest {
  /** The trajectory that records the call. Default: that of the async scope. */
  trajectory?: Trajectory | undefined;
}

export interface BegunCall {
  body: ChatCompletionRequest & { stream?: false };
  tools: Tool[] | undefined;
  signal: AbortSignal | undefined;
  trajectory: Trajectory | undefined;
  /** The trajectory of the async scope, even if the call is not recorded. */
  scope: Trajectory | undefined;
  index: number;
  /** Identifies the call in its trajectory; undefined if it is not recorded. */
  callId: string | undefined;
  /** Whether the agent set the call's seed. */
  hasAgentSeed: boolean;
}

export interface StreamedReply {
  /** The reply assembled from the chunks read so far. */
  reply: StreamedChoice;
  /** The call is recorded before this iteration ends. */
  chunks: AsyncGenerator<ChatCompletionChunk, void, undefined>;
}

/** Calls the policy and records its calls, both for the AI SDK and for the endpoint. */
export class PolicyCaller implements EndpointModel {
  readonly name: string;
  readonly #options: PolicyCallerOptions;
  readonly #override: ModelRequest['settings'];

  /** @throws RangeError for a deadline that is not above 0. */
  constructor(options: PolicyCallerOptions) {
    const { callTimeoutMs = 1 } = options;
    if (!(callTimeoutMs > 0))
      throw new RangeError(`callTimeoutMs is ${callTimeoutMs}. Give a time in milliseconds above 0.`);
    this.name = options.name;
    this.#options = options;
    this.#override = overrideFields(options.override);
  }

  /**
   * Begins the call in its trajectory and restores the sampled replies in its prompt.
   * @throws TrajectoryError if the rollout has ended or reached a limit, and outside of a rollout if `outsideRollout` is
   * `error`.
   */
  begin({ settings: requested, tools, prompt, seed, signal, trajectory: given }: PolicyRequest): BegunCall {
    const { name, record, sendTokenIds } = this.#options;
    const settings = { ...requested, ...this.#override };
    const scope = given ?? currentTrajectory();
    if (record && !scope) this.#options.outside.meet(name);
    const trajectory = record ? scope : undefined;
    const begun = trajectory?.beginCall();
    const limit = least(settings.max_completion_tokens, trajectory?.remainingTokens);
    return {
      tools,
      trajectory,
      scope,
      index: begun?.index ?? 0,
      callId: begun?.callId,
      hasAgentSeed: seed !== undefined,
      signal: eitherSignal(signal, scope?.signal),
      body: {
        ...settings,
        ...(limit === undefined ? {} : { max_completion_tokens: limit }),
        model: name,
        messages:
          trajectory && begun
            ? restoreSampled(prompt, trajectory, { callId: begun.callId, sendTokenIds })
            : prompt.messages,
        seed: seed ?? begun?.seed,
      },
    };
  }

  async answer(request: ModelRequest): Promise<WholeAnswer> {
    const call = this.begin(request);
    return { ...(await this.complete(call)), callId: call.callId };
  }

  async answerStreamed(request: ModelRequest): Promise<StreamedAnswer> {
    const call = this.begin(request);
    return { ...(await this.stream(call)), callId: call.callId };
  }

  /** Answers with the whole reply, after recording it. */
  complete(call: BegunCall): Promise<{ completion: ChatCompletion; choice: Choice }> {
    return withSpan(
      spanName.modelCall(this.name),
      requestAttributes(call.body, call.trajectory?.id),
      (span) =>
        this.#noting(call, async (options) => {
          const completion = await runAsOwnCall(() => this.#options.completions.create(call.body, options));
          const [choice] = completion.choices;
          if (!choice) throw incompleteCompletion(completion.model, 'without a choice');
          describeReply(span, call.body, { ...completion, choice });
          record(call, choice, completion.prompt_token_ids ?? [], completion.model);
          return { completion, choice };
        }),
      { kind: SpanKind.CLIENT },
    );
  }

  /** Streams the reply. The call keeps its span and its slot in the budget until the stream ends or its reader stops. */
  async stream(call: BegunCall): Promise<StreamedReply> {
    const opened = Promise.withResolvers<StreamedReply>();
    withSpan(
      spanName.modelCall(this.name),
      requestAttributes(call.body, call.trajectory?.id),
      (span) =>
        this.#noting(call, async (options) => {
          const body = { ...call.body, stream: true, stream_options: { include_usage: true } } as const;
          const chunks = await runAsOwnCall(() => this.#options.completions.create(body, options));
          const reply = new StreamedChoice();
          const ended = Promise.withResolvers<void>();
          opened.resolve({ reply, chunks: readAndRecord(call, chunks, reply, span, ended) });
          // A stream without a reader ends with the rollout.
          await untilAborted(ended.promise, options.signal);
        }),
      { kind: SpanKind.CLIENT },
    ).catch(opened.reject);
    return opened.promise;
  }

  /** Tracks the call in the trajectory, and notes a failure there. */
  async #noting<Result>(call: BegunCall, work: (options: CallOptions) => Promise<Result>): Promise<Result> {
    call.trajectory?.observations.beginCall(call.index);
    const endCall = () => call.trajectory?.observations.endCall(call.index);
    // An agent that aborts a call may return before the call has failed.
    call.signal?.addEventListener('abort', endCall, { once: true });
    try {
      return await this.#inBudget(call, work);
    } catch (error) {
      if (call.trajectory && isRequestError(error, 'context_length_exceeded'))
        call.trajectory.noteCallEnd('refused_by_context', call.index);
      else call.scope?.noteCallEnd('unanswered');
      throw error;
    } finally {
      call.signal?.removeEventListener('abort', endCall);
      endCall();
    }
  }

  async #inBudget<Result>(call: BegunCall, work: (options: CallOptions) => Promise<Result>): Promise<Result> {
    const { budget, callTimeoutMs } = this.#options;
    const place = await budget?.acquire(call.signal);
    const begun = performance.now();
    const labels = { provider: providerName, model: this.name };
    countModelCall(1, labels);
    let failure: string | undefined;
    let status: CallOutcome['status'] = 'answered';
    const onRetry = (notice: { status: number | null }) => {
      if (!isRateLimit(notice.status)) return;
      status = 'rate_limited';
      place?.rateLimited();
    };
    const deadline =
      callTimeoutMs === undefined
        ? undefined
        : new Deadline(callTimeoutMs, call.signal, () => timedOut(this.name, callTimeoutMs));
    try {
      return await work({ signal: deadline?.signal ?? call.signal, onRetry });
    } catch (error) {
      failure = errorKind(error);
      if (status === 'answered') status = 'failed';
      if (isRequestError(error)) onRetry(error);
      throw error;
    } finally {
      deadline?.clear();
      const durationMs = performance.now() - begun;
      place?.release({ status, durationMs });
      countModelCall(-1, labels);
      recordModelCall({ ...labels, durationMs, error: failure });
    }
  }
}

function overrideFields({ temperature, topP, topK, minP, maxOutputTokens }: SamplingOverride) {
  const fields = {
    temperature,
    top_p: topP,
    top_k: topK,
    min_p: minP,
    max_completion_tokens: maxOutputTokens,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function timedOut(model: string, timeoutMs: number): ModelError {
  return new ModelError(
    'model_call_timeout',
    `"${model}" had not answered a call ${timeoutMs} ms after it was sent. Raise \`callTimeoutMs\`, or lower ` +
      '`concurrency` or `max_completion_tokens`.',
  );
}

function isRateLimit(status: number | null): boolean {
  return status === 429 || status === 503;
}

async function* readAndRecord(
  call: BegunCall,
  chunks: AsyncIterable<ChatCompletionChunk>,
  reply: StreamedChoice,
  span: Span,
  ended: PromiseWithResolvers<void>,
): AsyncGenerator<ChatCompletionChunk, void, undefined> {
  try {
    for await (const chunk of chunks) {
      reply.add(chunk);
      yield chunk;
    }
    const completion = reply.complete();
    describeReply(span, call.body, completion);
    record(call, completion.choice, completion.promptTokenIds, completion.model);
  } catch (error) {
    ended.reject(error);
    throw error;
  } finally {
    // Must not wait for later ticks, because the reader may return immediately.
    call.trajectory?.observations.endCall(call.index);
    ended.resolve();
  }
}

function record(call: BegunCall, choice: Choice, promptTokenIds: number[], model: string): void {
  if (!call.trajectory || call.callId === undefined) return;
  const { index, tools } = call;
  const { messages } = call.body;
  call.trajectory.record(call.callId, { index, messages, tools, choice, promptTokenIds, model });
  call.trajectory.noteCallEnd(isCutByContext(call.body, choice) ? 'cut_by_context' : 'answered', index);
  const { observations } = call.trajectory;
  if (isGreedy(call.body, choice)) observations.greedyCalls++;
  if (call.hasAgentSeed) observations.agentSeeds++;
}

/** Whether the reply was cut before it reached the requested maximum of tokens: the context was full. */
function isCutByContext(
  { max_completion_tokens, max_tokens }: ChatCompletionRequest,
  { finish_reason, token_ids }: Choice,
): boolean {
  const asked = max_completion_tokens ?? max_tokens ?? Number.POSITIVE_INFINITY;
  return finish_reason === 'length' && (token_ids?.length ?? 0) < asked;
}

/** Uses the sampling settings reported by the service, or else the requested ones. */
function isGreedy({ temperature, top_k }: ChatCompletionRequest, { sampling }: Choice): boolean {
  const used = sampling ?? { temperature, top_k };
  return used.temperature === 0 || used.top_k === 1;
}

function least(a: number | null | undefined, b: number | undefined): number | undefined {
  return b === undefined ? (a ?? undefined) : Math.min(a ?? b, b);
}

function eitherSignal(a: AbortSignal | undefined, b: AbortSignal | undefined): AbortSignal | undefined {
  if (!a || a === b) return b;
  return b ? AbortSignal.any([a, b]) : a;
}
