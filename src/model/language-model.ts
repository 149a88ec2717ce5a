import { setImmediate as nextTick } from 'node:timers/promises';
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamResult,
  SharedV4Warning,
} from '@ai-sdk/provider';
import { currentTrajectory } from '../trajectory/index.ts';
import { toChatRequest } from './chat-request.ts';
import type { PolicyCaller } from './policy-caller.ts';
import { observeToolResults, providerName, toPromptMessages } from './prompt-messages.ts';
import { callStamp, toContent, toFinishReason, toStreamParts, toUsage } from './reply-parts.ts';
import type { StartedCall } from './started-call.ts';

/**
 * The policy as an AI SDK model. Each call is recorded in the trajectory of its async scope. Outside of a rollout the
 * model answers and nothing is recorded.
 */
export class PolicyLanguageModel implements LanguageModelV4 {
  readonly specificationVersion = 'v4';
  readonly provider = providerName;
  readonly modelId: string;
  readonly supportedUrls = {};
  readonly #caller: PolicyCaller;

  constructor(caller: PolicyCaller) {
    this.modelId = caller.name;
    this.#caller = caller;
  }

  async doGenerate(options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    const { call, warnings } = await this.#begin(options);
    const { completion, choice } = await this.#caller.complete(call);
    const stamp = callStamp(call.callId);
    return {
      content: toContent(choice, stamp),
      finishReason: toFinishReason(choice.finish_reason),
      usage: toUsage(completion.usage),
      warnings,
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

  async doStream(options: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const { call, warnings } = await this.#begin(options);
    const { reply, chunks } = await this.#caller.stream(call);
    const parts = toStreamParts({
      chunks,
      reply,
      warnings,
      stamp: callStamp(call.callId),
      includeRawChunks: options.includeRawChunks ?? false,
    });
    return { stream: ReadableStream.from(parts), request: { body: call.body } };
  }

  async #begin(
    options: LanguageModelV4CallOptions,
  ): Promise<{ call: StartedCall; warnings: SharedV4Warning[] }> {
    const { settings, tools, warnings, prompt } = readRequest(options);
    try {
      const call = this.#caller.begin({
        settings,
        tools,
        prompt,
        seed: options.seed,
        signal: options.abortSignal,
      });
      if (call.trajectory) observeToolResults(options, call.trajectory.observations);
      return { call, warnings };
    } catch (error) {
      // Waits one tick: an agent that retries on every error would otherwise block timers and other rollouts.
      await nextTick();
      throw error;
    }
  }
}

/** The request in the service's form. @throws ModelError for a setting that the service lacks. The call then has failed. */
function readRequest(options: LanguageModelV4CallOptions) {
  try {
    return { ...toChatRequest(options), prompt: toPromptMessages(options.prompt) };
  } catch (error) {
    currentTrajectory()?.failCall(error);
    throw error;
  }
}
