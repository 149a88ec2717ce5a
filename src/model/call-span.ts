import type { Attributes, Span } from '@opentelemetry/api';
import type { ChatCompletionRequest, Choice, FinishReason, Usage } from '../contract/index.ts';
import { contentAttributes, genAi, recordTokens } from '../telemetry/index.ts';
import { providerName } from './prompt-messages.ts';

/** The attributes of a call's span that are known before its answer. */
export function requestAttributes(
  body: ChatCompletionRequest,
  conversationId: string | undefined,
): Attributes {
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
export function describeReply(
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
