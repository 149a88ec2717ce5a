import {
  APICallError,
  type LanguageModelV4,
  type LanguageModelV4CallOptions,
  type LanguageModelV4Content,
  type LanguageModelV4FinishReason,
  type LanguageModelV4GenerateResult,
  type LanguageModelV4StreamPart,
  type LanguageModelV4StreamResult,
  type LanguageModelV4Usage,
} from '@ai-sdk/provider';
import { SpanKind } from '@opentelemetry/api';
import { isContextLengthError } from '../client/index.ts';
import type { Tool } from '../contract/index.ts';
import {
  countModelCall,
  errorKind,
  genAi,
  recordModelCall,
  recordTokens,
  spanName,
  withSpan,
} from '../telemetry/index.ts';
import { currentTrajectory, runOutsideTrajectory } from '../trajectory/index.ts';
import { untilAborted } from '../util/deadline.ts';
import type { CallBudget, CallOutcome } from './call-budget.ts';
import { StreamedContent, toReadableMessages, toSpokenChoice } from './external-messages.ts';
import type { SamplingOverride } from './policy-caller.ts';

export interface ExternalLanguageModelOptions {
  model: LanguageModelV4;
  name: string;
  override: Omit<SamplingOverride, 'minP'>;
  budget: CallBudget | undefined;
}

interface BegunCall {
  options: LanguageModelV4CallOptions;
  record: (said: AnsweredContent) => void;
  /** Reports a failed call to the trajectory. */
  noteFailure: (error: unknown) => void;
}

interface AnsweredContent {
  content: LanguageModelV4Content[];
  finishReason: LanguageModelV4FinishReason;
  usage: LanguageModelV4Usage;
}

/** Any AI SDK model in place of the policy. Records its calls as messages in the trajectory of the async scope. */
export class ExternalLanguageModel implements LanguageModelV4 {
  readonly specificationVersion = 'v4';
  readonly provider: string;
  readonly modelId: string;
  readonly supportedUrls: LanguageModelV4['supportedUrls'];
  readonly #options: ExternalLanguageModelOptions;

  constructor(options: ExternalLanguageModelOptions) {
    this.provider = options.model.provider;
    this.modelId = options.model.modelId;
    this.supportedUrls = options.model.supportedUrls;
    this.#options = options;
  }

  async doGenerate(asked: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    const { options, record, noteFailure } = this.#begin(asked);
    return this.#inSpan({ options, noteFailure }, async () => {
      const result = await runOutsideTrajectory(async () => this.#options.model.doGenerate(options));
      record(result);
      return result;
    });
  }

  async doStream(asked: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const { options, record, noteFailure } = this.#begin(asked);
    const opened = Promise.withResolvers<LanguageModelV4StreamResult>();
    this.#inSpan({ options, noteFailure }, async () => {
      const result = await runOutsideTrajectory(async () => this.#options.model.doStream(options));
      const ended = Promise.withResolvers<void>();
      const parts = readAndRecord(result.stream, { record, noteFailure }, ended);
      opened.resolve({ ...result, stream: ReadableStream.from(parts) });
      // A stream without a reader ends with the rollout.
      await untilAborted(ended.promise, options.abortSignal);
    }).catch(opened.reject);
    return opened.promise;
  }

  #begin(asked: LanguageModelV4CallOptions): BegunCall {
    const trajectory = currentTrajectory();
    const begun = trajectory?.beginCall();
    const { name, override } = this.#options;
    const { temperature, topP, topK } = override;
    const limits = [override.maxOutputTokens ?? asked.maxOutputTokens, trajectory?.remainingTokens];
    const limit = Math.min(...limits.filter((tokens) => tokens !== undefined));
    const signals = [asked.abortSignal, trajectory?.signal].filter((signal) => signal !== undefined);
    const options: LanguageModelV4CallOptions = {
      ...asked,
      ...(temperature === undefined ? {} : { temperature }),
      ...(topP === undefined ? {} : { topP }),
      ...(topK === undefined ? {} : { topK }),
      ...(limit === Number.POSITIVE_INFINITY ? {} : { maxOutputTokens: limit }),
      ...(signals.length > 0 ? { abortSignal: AbortSignal.any(signals) } : {}),
    };
    const { provider, modelId: model } = this.#options.model;
    const record = ({ content, finishReason, usage }: AnsweredContent) => {
      const promptTokens = usage.inputTokens.total ?? 0;
      const sampledTokens = usage.outputTokens.total ?? 0;
      recordTokens({ provider, model, promptTokens, completionTokens: sampledTokens });
      if (!trajectory || !begun) return;
      const { index, callId } = begun;
      trajectory.recordMessages(callId, {
        index,
        model: name,
        messages: toReadableMessages(asked.prompt),
        tools: toolsOf(asked),
        choice: toSpokenChoice(content, finishReason),
        promptTokens,
        sampledTokens,
      });
      trajectory.noteCallEnd('answered', index);
    };
    const noteFailure = (error: unknown) =>
      trajectory?.noteCallEnd(isPromptTooLong(error) ? 'refused_by_context' : 'unanswered');
    return { options, record, noteFailure };
  }

  #inSpan<Result>(
    { options, noteFailure }: Pick<BegunCall, 'options' | 'noteFailure'>,
    work: () => Promise<Result>,
  ): Promise<Result> {
    const { name, model, budget } = this.#options;
    const attributes = {
      [genAi.operationName]: 'chat',
      [genAi.providerName]: model.provider,
      [genAi.requestModel]: model.modelId,
    };
    const call = async () => {
      const place = await budget?.acquire(options.abortSignal);
      const begun = performance.now();
      const labels = { provider: model.provider, model: model.modelId };
      let status: CallOutcome['status'] = 'failed';
      let failure: string | undefined;
      countModelCall(1, labels);
      try {
        const result = await work();
        status = 'answered';
        return result;
      } catch (error) {
        if (isRateLimited(error)) status = 'rate_limited';
        failure = errorKind(error);
        noteFailure(error);
        throw error;
      } finally {
        const durationMs = performance.now() - begun;
        place?.release({ status, durationMs });
        countModelCall(-1, labels);
        recordModelCall({ ...labels, durationMs, error: failure });
      }
    };
    return withSpan(spanName.modelCall(name), attributes, call, { kind: SpanKind.CLIENT });
  }
}

async function* readAndRecord(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  { record, noteFailure }: Pick<BegunCall, 'record' | 'noteFailure'>,
  ended: PromiseWithResolvers<void>,
): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
  const said = new StreamedContent();
  let hasFailed = false;
  try {
    for await (const part of stream) {
      said.add(part);
      // A failure during the stream is an `error` part, and the stream then ends normally.
      if (part.type === 'error') {
        hasFailed = true;
        noteFailure(part.error);
        ended.reject(part.error);
      }
      if (part.type === 'finish' && !hasFailed) {
        const { finishReason, usage } = part;
        record({ content: said.content, finishReason, usage });
      }
      yield part;
    }
  } catch (error) {
    ended.reject(error);
    throw error;
  } finally {
    ended.resolve();
  }
}

function toolsOf({ tools }: LanguageModelV4CallOptions): Tool[] | undefined {
  const known = (tools ?? []).flatMap((tool): Tool[] => {
    if (tool.type !== 'function') return [];
    const { name, description, inputSchema } = tool;
    return [{ type: 'function', function: { name, description, parameters: { ...inputSchema } } }];
  });
  return known.length > 0 ? known : undefined;
}

/** Whether a provider refused a call because the prompt is longer than the model's context. */
export function isPromptTooLong(error: unknown): boolean {
  if (!APICallError.isInstance(error)) return false;
  return isContextLengthError(error.statusCode ?? 0, error.responseBody ?? '');
}

function isRateLimited(error: unknown): boolean {
  const status = error instanceof Error && 'statusCode' in error ? error.statusCode : undefined;
  return status === 429 || status === 503;
}
