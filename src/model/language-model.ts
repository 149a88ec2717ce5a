import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamResult,
} from '@ai-sdk/provider';
import type { Span } from '@opentelemetry/api';
import type { Client, WholeChatRequest } from '../client/index.ts';
import type { Choice } from '../contract/index.ts';
import { spanName, withSpan } from '../telemetry/index.ts';
import { currentTrajectory, type Trajectory } from '../trajectory/index.ts';
import { requestAttributes, responseAttributes } from './call-attributes.ts';
import { type ChatRequest, toChatRequest } from './chat-request.ts';
import { callStamp, toContent, toFinishReason, toUsage } from './completion-content.ts';
import { IncompleteCompletionError } from './errors.ts';
import { providerName, toPromptMessages } from './prompt-messages.ts';
import { restoreSampled } from './sampled-prefix.ts';
import type { SamplingOverride } from './sampling-override.ts';
import { type StreamEnd, toStreamParts } from './stream-parts.ts';

export interface RecordingLanguageModelOptions {
  client: Client;
  /** Name that chat completions call the model by. */
  name: string;
  override: SamplingOverride;
  record: boolean;
  sendTokenIds: boolean;
}

interface BegunCall extends ChatRequest {
  body: WholeChatRequest;
  signal: AbortSignal | undefined;
  trajectory: Trajectory | undefined;
  index: number;
  callId: string | undefined;
}

/**
 * The model as the AI SDK calls it. Each call is recorded in the trajectory of the async scope it is made in, which
 * is looked up at the time of the call; outside of a rollout the model answers and nothing is recorded.
 */
export class RecordingLanguageModel implements LanguageModelV4 {
  readonly specificationVersion = 'v4';
  readonly provider = providerName;
  readonly modelId: string;
  readonly supportedUrls = {};
  readonly #options: RecordingLanguageModelOptions;

  constructor(options: RecordingLanguageModelOptions) {
    this.modelId = options.name;
    this.#options = options;
  }

  async doGenerate(options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    const call = this.#begin(options);
    return withSpan(spanName.modelCall(this.modelId), requestAttributes(call.body), (span) =>
      this.#generate(call, span),
    );
  }

  async doStream(options: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const call = this.#begin(options);
    const opened = Promise.withResolvers<LanguageModelV4StreamResult>();
    // The span lasts until the stream has ended, long after the agent has been given it.
    withSpan(spanName.modelCall(this.modelId), requestAttributes(call.body), async (span) => {
      const ended = Promise.withResolvers<void>();
      const includeRawChunks = options.includeRawChunks ?? false;
      opened.resolve(await this.#stream(call, { includeRawChunks, span, onEnd: ended }));
      await ended.promise;
    }).catch(opened.reject);
    return opened.promise;
  }

  async #generate(call: BegunCall, span: Span): Promise<LanguageModelV4GenerateResult> {
    const completion = await this.#options.client.chat.completions.create(call.body, { signal: call.signal });
    const [choice] = completion.choices;
    if (!choice) throw new IncompleteCompletionError(completion.model, 'without a choice');
    span.setAttributes(responseAttributes(completion, choice.finish_reason));
    record(call, choice, completion.prompt_token_ids ?? [], completion.model);
    const stamp = callStamp(call.callId);
    return {
      content: toContent(choice, stamp),
      finishReason: toFinishReason(choice.finish_reason),
      usage: toUsage(completion.usage),
      warnings: call.warnings,
      ...(stamp ? { providerMetadata: stamp } : {}),
      request: { body: call.body },
      response: {
        id: completion.id,
        modelId: completion.model,
        timestamp: new Date(completion.created * 1000),
        body: completion,
      },
    };
  }

  async #stream(
    call: BegunCall,
    { includeRawChunks, span, onEnd }: { includeRawChunks: boolean; span: Span; onEnd: StreamEnd },
  ): Promise<LanguageModelV4StreamResult> {
    const body = { ...call.body, stream: true, stream_options: { include_usage: true } } as const;
    const chunks = await this.#options.client.chat.completions.create(body, { signal: call.signal });
    const parts = toStreamParts({
      chunks,
      warnings: call.warnings,
      stamp: callStamp(call.callId),
      includeRawChunks,
      onCompletion: (completion) => {
        span.setAttributes(responseAttributes(completion, completion.choice.finish_reason));
        record(call, completion.choice, completion.promptTokenIds, completion.model);
      },
      onEnd,
    });
    return { stream: ReadableStream.from(parts), request: { body } };
  }

  #begin(options: LanguageModelV4CallOptions): BegunCall {
    const { name, override, record: isRecorded, sendTokenIds } = this.#options;
    const trajectory = isRecorded ? currentTrajectory() : undefined;
    const request = toChatRequest(options, override);
    const prompt = toPromptMessages(options.prompt);
    const begun = trajectory?.beginCall();
    return {
      ...request,
      trajectory,
      index: begun?.index ?? 0,
      callId: begun?.callId,
      signal: eitherSignal(options.abortSignal, currentTrajectory()?.signal),
      body: {
        ...request.settings,
        model: name,
        messages: trajectory ? restoreSampled(prompt, trajectory, { sendTokenIds }) : prompt.messages,
        seed: options.seed ?? begun?.seed,
      },
    };
  }
}

function record(call: BegunCall, choice: Choice, promptTokenIds: number[], model: string): void {
  if (!call.trajectory || call.callId === undefined) return;
  const { index, tools } = call;
  call.trajectory.record(call.callId, {
    index,
    messages: call.body.messages,
    tools,
    choice,
    promptTokenIds,
    model,
  });
}

function eitherSignal(a: AbortSignal | undefined, b: AbortSignal | undefined): AbortSignal | undefined {
  if (!a || a === b) return b;
  return b ? AbortSignal.any([a, b]) : a;
}
