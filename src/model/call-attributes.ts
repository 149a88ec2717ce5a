import type { Attributes } from '@opentelemetry/api';
import type { ChatCompletionRequest, FinishReason, Usage } from '../contract/index.ts';
import { genAi } from '../telemetry/index.ts';
import { providerName } from './prompt-messages.ts';

export function requestAttributes(body: ChatCompletionRequest): Attributes {
  return {
    [genAi.operationName]: 'chat',
    [genAi.providerName]: providerName,
    [genAi.requestModel]: body.model ?? undefined,
    [genAi.requestTemperature]: body.temperature ?? undefined,
    [genAi.requestMaxTokens]: body.max_completion_tokens ?? undefined,
    [genAi.requestSeed]: body.seed ?? undefined,
  };
}

export function responseAttributes(
  { id, model, usage }: { id: string; model: string; usage: Usage | undefined },
  finishReason: FinishReason,
): Attributes {
  return {
    [genAi.responseId]: id,
    [genAi.responseModel]: model,
    [genAi.responseFinishReasons]: [finishReason],
    [genAi.usageInputTokens]: usage?.prompt_tokens,
    [genAi.usageOutputTokens]: usage?.completion_tokens,
  };
}
