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
import { isContextLengthError } from '../client/index.ts';
import type { Tool } from '../contract/index.ts';
import { genAi, recordTokens } from '../telemetry/index.ts';
import { currentTrajectory, runOutsideTrajectory } from '../trajectory/index.ts';
import { untilAborted } from '../util/deadline.ts';
import { smallestOf } from '../util/extremes.ts';
import type { CallBudget } from './call-budget.ts';
import { StreamedContent, toExternalChoice, toReadableMessages } from './external-messages.ts';
import { runModelCall } from './model-call.ts';
import type { SamplingOverride } from './policy-caller.ts';

interface ExternalLanguageModelOptions {
  model: LanguageModelV4;
  name: string;
  override: Omit<SamplingOverride, 'minP'>;
  budget: CallBudget | undefined;
}

interface StartedCall {
  options: LanguageModelV4CallOptions;
  record: (answer: AnsweredContent) => void;
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

  async doGenerate(requested: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    const call = this.#begin(requested);
    return this.#run(call, async () => {
      const result = await runOutsideTrajectory(async () => this.#options.model.doGenerate(call.options));
      call.record(result);
      return result;
    });
  }

  async doStream(requested: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const call = this.#begin(requested);
    const opened = Promise.withResolvers<LanguageModelV4StreamResult>();
    this.#run(call, async () => {
      const result = await runOutsideTrajectory(async () => this.#options.model.doStream(call.options));
      const ended = Promise.withResolvers<void>();
      const parts = readAndRecord(result.stream, call, ended);
      opened.resolve({ ...result, stream: ReadableStream.from(parts) });
      // A stream without a reader ends with the rollout.
      await untilAborted(ended.promise, call.options.abortSignal);
    }).catch(opened.reject);
    return opened.promise;
  }

  #begin(requested: LanguageModelV4CallOptions): StartedCall {
    const trajectory = currentTrajectory();
    const started = trajectory?.startCall();
    trajectory?.observations.beginCall(requested.prompt);
    const { name, override } = this.#options;
    const { temperature, topP, topK } = override;
    const limits = [override.maxOutputTokens ?? requested.maxOutputTokens, trajectory?.remainingTokens];
    const limit = smallestOf(limits.filter((tokens) => tokens !== undefined));
    const signals = [requested.abortSignal, trajectory?.signal].filter((signal) => signal !== undefined);
    const options: LanguageModelV4CallOptions = {
      ...requested,
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
      if (!trajectory || !started) return;
      const { index } = started;
      trajectory.recordMessages({
        index,
        model: name,
        messages: toReadableMessages(requested.prompt),
        tools: toolsOf(requested),
        choice: toExternalChoice(content, finishReason),
        promptTokens,
        sampledTokens,
      });
      trajectory.endCall('answered', index);
    };
    let hasFailed = false;
    const noteFailure = (error: unknown) => {
      if (hasFailed) return;
      hasFailed = true;
      if (isPromptTooLong(error)) trajectory?.endCall('refused_by_context');
      else trajectory?.failCall(error, requested.prompt);
    };
    return { options, record, noteFailure };
  }

  #run<Result>({ options, noteFailure }: StartedCall, work: () => Promise<Result>): Promise<Result> {
    const { name, model, budget } = this.#options;
    const labels = { provider: model.provider, model: model.modelId };
    const attributes = {
      [genAi.operationName]: 'chat',
      [genAi.providerName]: model.provider,
      [genAi.requestModel]: model.modelId,
    };
    return runModelCall({ name, labels, attributes, budget, signal: options.abortSignal }, async () => {
      try {
        return await work();
      } catch (error) {
        noteFailure(error);
        throw error;
      }
    });
  }
}

async function* readAndRecord(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  { record, noteFailure }: StartedCall,
  ended: PromiseWithResolvers<void>,
): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
  const reply = new StreamedContent();
  let hasFailed = false;
  try {
    for await (const part of stream) {
      reply.add(part);
      // A failure during the stream is an `error` part, and the stream then ends normally.
      if (part.type === 'error') {
        hasFailed = true;
        noteFailure(part.error);
        ended.reject(part.error);
      }
      if (part.type === 'finish' && !hasFailed) {
        const { finishReason, usage } = part;
        record({ content: reply.content, finishReason, usage });
      }
      yield part;
    }
  } catch (error) {
    noteFailure(error);
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
