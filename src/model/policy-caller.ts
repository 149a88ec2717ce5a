import type { Span } from '@opentelemetry/api';
import type { CallOptions } from '../client/index.ts';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  Choice,
} from '../contract/index.ts';
import type { EndpointModel, ModelRequest, StreamedAnswer, WholeAnswer } from '../endpoint/index.ts';
import { currentTrajectory, runAsOwnCall, unexpectedCall } from '../trajectory/index.ts';
import { Deadline, untilAborted } from '../util/deadline.ts';
import { warn } from '../util/warning.ts';
import type { CallBudget } from './call-budget.ts';
import { describeReply, requestAttributes } from './call-span.ts';
import { type CompletionSource, StreamedChoice } from './completion-source.ts';
import { restoreSampled } from './conversation-tree.ts';
import { runModelCall } from './model-call.ts';
import { incompleteCompletion, ModelError } from './model-error.ts';
import { providerName } from './prompt-messages.ts';
import { warnOfUnenforced } from './schema-warning.ts';
import { isTooLong, noteFailure, recordAnswer, type StartedCall } from './started-call.ts';

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
      recordAnswer(call, choice, completion.prompt_token_ids ?? [], completion.model);
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
      noteFailure(call, signal?.reason);
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
      else noteFailure(call, error);
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      untrack();
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
    recordAnswer(call, completion.choice, completion.promptTokenIds, completion.model);
  } catch (error) {
    // Noted before the reader gets the error, because it may return at once.
    if (!isTooLong(call, error)) noteFailure(call, error);
    ended.reject(error);
    throw error;
  } finally {
    // The policy has sampled tokens that the agent may have seen, and they are not trained on.
    if (!call.hasEnded) noteFailure(call, streamLeft(call.body.model ?? ''));
    // Must not wait for later ticks, because the reader may return immediately.
    call.trajectory?.observations.untrackCall(call.index);
    ended.resolve();
  }
}

function minOf(a: number | null | undefined, b: number | undefined): number | undefined {
  return b === undefined ? (a ?? undefined) : Math.min(a ?? b, b);
}
