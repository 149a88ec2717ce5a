import type { Attributes, Span } from '@opentelemetry/api';
import { type CallOptions, isRequestError } from '../client/index.ts';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  Choice,
  FinishReason,
  Message,
  Tool,
  Usage,
} from '../contract/index.ts';
import type { EndpointModel, ModelRequest, StreamedAnswer, WholeAnswer } from '../endpoint/index.ts';
import { contentAttributes, genAi, recordTokens } from '../telemetry/index.ts';
import {
  askedFormOf,
  currentTrajectory,
  runAsOwnCall,
  type Trajectory,
  unexpectedCall,
} from '../trajectory/index.ts';
import { Deadline, untilAborted } from '../util/deadline.ts';
import { warn } from '../util/warning.ts';
import type { CallBudget } from './call-budget.ts';
import { type CompletionSource, StreamedChoice } from './completion-source.ts';
import { restoreSampled } from './conversation-tree.ts';
import { runModelCall } from './model-call.ts';
import { incompleteCompletion, ModelError } from './model-error.ts';
import { providerName } from './prompt-messages.ts';
import { warnOfUnenforced } from './schema-warning.ts';

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

/** What happens to a call of a recorded model outside of any rollout. */
export type OutsideRollout = 'answer' | 'warn' | 'error';

interface PolicyCallerOptions {
  completions: CompletionSource;
  /** Name of the model in chat requests. */
  name: string;
  override: SamplingOverride;
  record: boolean;
  sendTokenIds: boolean;
  tokenLists: boolean;
  budget: CallBudget | undefined;
  outsideRollout: OutsideRollout;
  /** Deadline of a call in milliseconds, from getting its slot in the budget to its answer. */
  callTimeoutMs: number | undefined;
}

export interface StartedCall {
  body: ChatCompletionRequest & { stream?: false };
  /** The messages as the agent sent them. A repetition of a failed call has the same ones. */
  asked: readonly Message[];
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
  /** When it began and when it was sent, in milliseconds of its trajectory. */
  begunMs: number;
  sentMs: number;
  /** Whether its answer is recorded, or its failure noted. */
  hasEnded?: boolean;
}

interface StreamedReply {
  /** The reply assembled from the chunks read so far. */
  reply: StreamedChoice;
  /** The call is recorded before this iteration ends. */
  chunks: AsyncGenerator<ChatCompletionChunk, void, undefined>;
}

/** Names of the models that have warned of calls outside of any rollout. */
const warned = new Set<string>();

/** Calls the policy and records its calls, both for the AI SDK and for the endpoint. */
export class PolicyCaller implements EndpointModel {
  readonly name: string;
  readonly #options: PolicyCallerOptions;
  readonly #override: ModelRequest['settings'];

  /** @throws RangeError for a deadline that is not above 0. */
  constructor(options: PolicyCallerOptions) {
    const { callTimeoutMs = 1 } = options;
    if (!(callTimeoutMs > 0))
      throw new RangeError(`callTimeoutMs is ${callTimeoutMs}. Pass a time in milliseconds above 0.`);
    this.name = options.name;
    this.#options = options;
    this.#override = overrideFields(options.override);
  }

  /** Applies `outsideRollout` to a call outside of any rollout. Warns once. @throws TrajectoryError if it is `error`. */
  checkOutside(): void {
    const { name, record, outsideRollout } = this.#options;
    if (!record || outsideRollout === 'answer') return;
    const message =
      `"${name}" was called outside of a rollout, through the handle of a rollout: the call is in no trajectory. Call it ` +
      'within the rollout function, in its async scope. For a judge or teacher use `model.with({ record: false })`.';
    if (outsideRollout === 'error') throw unexpectedCall('outside_rollout', message);
    if (warned.has(name)) return;
    warned.add(name);
    warn('martingale_outside_rollout', message);
  }

  /**
   * Begins the call in its trajectory and restores the sampled replies in its prompt.
   * @throws TrajectoryError if the rollout has ended or reached a limit, and outside of a rollout if `outsideRollout` is
   * `error`.
   */
  begin({ settings: requested, tools, prompt, seed, signal }: ModelRequest): StartedCall {
    const { name, record, sendTokenIds } = this.#options;
    const settings = { ...requested, ...this.#override };
    warnOfUnenforced(tools, settings.response_format);
    const scope = currentTrajectory();
    if (!scope) this.checkOutside();
    const trajectory = record ? scope : undefined;
    const started = trajectory?.startCall();
    scope?.observations.beginCall(prompt.messages);
    const begunMs = trajectory?.milliseconds ?? 0;
    const limit = minOf(settings.max_completion_tokens, trajectory?.remainingTokens);
    return {
      asked: prompt.messages,
      tools,
      trajectory,
      scope,
      index: started?.index ?? 0,
      callId: started?.callId,
      hasAgentSeed: seed !== undefined,
      begunMs,
      sentMs: begunMs,
      signal: scope ? scope.callSignal(signal) : signal,
      body: {
        ...settings,
        ...this.#tokenForm(settings),
        ...(limit === undefined ? {} : { max_completion_tokens: limit }),
        model: name,
        messages:
          trajectory && started
            ? restoreSampled(prompt, trajectory, { index: started.index, sendTokenIds })
            : prompt.messages,
        seed: seed ?? started?.seed,
      },
    };
  }

  /** The form in which the service reports the tokens of a reply. Entries of tokens also hold what agents ask for. */
  #tokenForm({
    logprobs,
    top_logprobs,
  }: ModelRequest['settings']): Pick<ChatCompletionRequest, 'logprobs' | 'return_token_logprobs'> {
    return this.#options.tokenLists && logprobs == null && top_logprobs == null
      ? { return_token_logprobs: true }
      : { logprobs: logprobs ?? true };
  }

  async answer(request: ModelRequest): Promise<WholeAnswer> {
    const call = this.begin(request);
    return { ...(await this.complete(call)), callId: call.callId };
  }

  async answerStreamed(request: ModelRequest): Promise<StreamedAnswer> {
    const call = this.begin(request);
    return { ...(await this.stream(call)), callId: call.callId };
  }

  /**
   * Number of tokens of the prompt that such a call would have, as the service counts it for a reply of one token. That
   * call belongs to no trajectory: it is not recorded, has no part in the rollout's limits, and may fail.
   */
  async countTokens({ settings, tools, prompt, signal }: ModelRequest): Promise<number> {
    const { name, record, sendTokenIds } = this.#options;
    const scope = currentTrajectory();
    if (!scope) this.checkOutside();
    const messages = record && scope ? restoreSampled(prompt, scope, { sendTokenIds }) : prompt.messages;
    const { completion } = await this.complete({
      asked: prompt.messages,
      tools,
      trajectory: undefined,
      scope: undefined,
      index: 0,
      callId: undefined,
      hasAgentSeed: false,
      begunMs: 0,
      sentMs: 0,
      signal: scope ? scope.callSignal(signal) : signal,
      body: {
        ...settings,
        logprobs: false,
        return_token_ids: false,
        max_completion_tokens: 1,
        model: name,
        messages,
      },
    });
    return completion.usage.prompt_tokens;
  }

  /** Answers with the whole reply, after recording it. */
  complete(call: StartedCall): Promise<{ completion: ChatCompletion; choice: Choice }> {
    return this.#tracked(call, async (span, options) => {
      const completion = await runAsOwnCall(() => this.#options.completions.create(call.body, options));
      const [choice] = completion.choices;
      if (!choice) throw incompleteCompletion(completion.model, 'without a choice');
      describeReply(span, call.body, { ...completion, choice });
      record(call, choice, completion.prompt_token_ids ?? [], completion.model);
      return { completion, choice };
    });
  }

  /** Streams the reply. The call keeps its span and its slot in the budget until the stream ends or its reader stops. */
  async stream(call: StartedCall): Promise<StreamedReply> {
    const opened = Promise.withResolvers<StreamedReply>();
    this.#tracked(call, async (span, options) => {
      const body = { ...call.body, stream: true, stream_options: { include_usage: true } } as const;
      const chunks = await runAsOwnCall(() => this.#options.completions.create(body, options));
      const reply = new StreamedChoice();
      const ended = Promise.withResolvers<void>();
      opened.resolve({ reply, chunks: readAndRecord(call, chunks, reply, span, ended) });
      // A stream without a reader ends with the rollout.
      await untilAborted(ended.promise, options.signal);
    }).catch(opened.reject);
    return opened.promise;
  }

  /** Runs the call within its deadline, tracks it in the trajectory, and notes a failure there. */
  async #tracked<Result>(
    call: StartedCall,
    work: (span: Span, options: CallOptions) => Promise<Result>,
  ): Promise<Result> {
    const { budget, callTimeoutMs } = this.#options;
    const { body, trajectory, index, signal } = call;
    const { name } = this;
    trajectory?.observations.trackCall(index);
    const untrack = () => trajectory?.observations.untrackCall(index);
    // An agent that aborts a call may return before the call has failed.
    const onAbort = () => {
      untrack();
      fail(call, signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      const labels = { provider: providerName, model: name };
      const attributes = requestAttributes(body, trajectory?.id);
      return await runModelCall({ name, labels, attributes, budget, signal }, async ({ span, onRetry }) => {
        call.sentMs = trajectory?.milliseconds ?? 0;
        if (callTimeoutMs === undefined) return work(span, { signal, onRetry });
        const deadline = new Deadline(callTimeoutMs, signal, () => timedOut(name, callTimeoutMs));
        try {
          return await work(span, { signal: deadline.signal, onRetry });
        } finally {
          deadline.clear();
        }
      });
    } catch (error) {
      if (isTooLong(call, error)) trajectory?.endCall('refused_by_context', index);
      else fail(call, error);
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      untrack();
    }
  }
}

/** Whether the service refused a recorded call for the length of its prompt, which is the policy's doing. */
const isTooLong = ({ trajectory }: StartedCall, error: unknown): boolean =>
  trajectory !== undefined && isRequestError(error, 'context_length_exceeded');

/** Notes once that a call got no answer. */
function fail(call: StartedCall, error: unknown): void {
  if (call.hasEnded) return;
  call.hasEnded = true;
  call.scope?.failCall(error, call.asked);
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
    `"${model}" did not answer a call within ${timeoutMs} ms. Raise \`callTimeoutMs\`, or lower ` +
      '`concurrency` or `max_completion_tokens`.',
  );
}

function streamLeft(model: string): ModelError {
  return new ModelError(
    'stream_left',
    `The agent stopped reading the stream of "${model}" before its end, so the reply is not recorded. Read streams to their end.`,
  );
}

function requestAttributes(body: ChatCompletionRequest, conversationId: string | undefined): Attributes {
  return {
    [genAi.conversationId]: conversationId,
    [genAi.operationName]: 'chat',
    [genAi.providerName]: providerName,
    [genAi.requestModel]: body.model ?? undefined,
    [genAi.requestTemperature]: body.temperature ?? undefined,
    [genAi.requestMaxTokens]: body.max_completion_tokens ?? undefined,
    [genAi.requestSeed]: body.seed ?? undefined,
  };
}

function responseAttributes(
  { id, model, usage }: { id: string; model: string; usage: Usage | undefined },
  finishReason: FinishReason,
): Attributes {
  return {
    [genAi.responseId]: id,
    [genAi.responseModel]: model,
    [genAi.responseFinishReasons]: [finishReason],
    [genAi.usageInputTokens]: usage?.prompt_tokens,
    [genAi.usageOutputTokens]: usage?.completion_tokens,
    [genAi.cacheReadTokens]: usage?.prompt_tokens_details?.cached_tokens ?? undefined,
  };
}

/** Adds the answer of a call to its span and to the metrics. */
function describeReply(
  span: Span,
  body: ChatCompletionRequest,
  answer: { id: string; model: string; usage: Usage | undefined; choice: Choice },
): void {
  const { choice, usage } = answer;
  if (span.isRecording()) {
    span.setAttributes(responseAttributes(answer, choice.finish_reason));
    span.setAttributes(contentAttributes(body.messages, choice));
  }
  if (!usage) return;
  recordTokens({
    provider: providerName,
    model: body.model ?? answer.model,
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
  });
}

async function* readAndRecord(
  call: StartedCall,
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
    // Noted before the reader gets the error, because it may return at once.
    if (!isTooLong(call, error)) fail(call, error);
    ended.reject(error);
    throw error;
  } finally {
    // The policy has sampled tokens that the agent may have seen, and they are not trained on.
    if (!call.hasEnded) fail(call, streamLeft(call.body.model ?? ''));
    // Must not wait for later ticks, because the reader may return immediately.
    call.trajectory?.observations.untrackCall(call.index);
    ended.resolve();
  }
}

function record(call: StartedCall, choice: Choice, promptTokenIds: number[], model: string): void {
  const { trajectory, index, tools, body } = call;
  call.hasEnded = true;
  if (!trajectory) return;
  const { begunMs, sentMs } = call;
  const times = [tenths(begunMs), tenths(sentMs), tenths(trajectory.milliseconds)] as const;
  const { messages } = body;
  const askedForm = askedFormOf(body);
  trajectory.record({ index, messages, tools, askedForm, choice, promptTokenIds, model, times });
  trajectory.endCall(isCutByContext(body, choice) ? 'cut_by_context' : 'answered', index);
  const { observations } = trajectory;
  if (isGreedy(body, choice)) observations.greedyCalls++;
  if (call.hasAgentSeed) observations.agentSeeds++;
}

const tenths = (milliseconds: number): number => Math.round(milliseconds * 10) / 10;

/** Whether the reply was cut before it reached the requested maximum of tokens: the context was full. */
function isCutByContext(
  { max_completion_tokens, max_tokens }: ChatCompletionRequest,
  { finish_reason, token_ids }: Choice,
): boolean {
  const requested = max_completion_tokens ?? max_tokens ?? Number.POSITIVE_INFINITY;
  return finish_reason === 'length' && (token_ids?.length ?? 0) < requested;
}

/** Uses the sampling settings reported by the service, or else the requested ones. */
function isGreedy({ temperature, top_k }: ChatCompletionRequest, { sampling }: Choice): boolean {
  const used = sampling ?? { temperature, top_k };
  return used.temperature === 0 || used.top_k === 1;
}

function minOf(a: number | null | undefined, b: number | undefined): number | undefined {
  return b === undefined ? (a ?? undefined) : Math.min(a ?? b, b);
}
