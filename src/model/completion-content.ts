import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
} from '@ai-sdk/provider';
import type { Choice, FinishReason, Usage } from '../contract/index.ts';
import { providerName } from './prompt-messages.ts';

/** What marks each part of a reply as sampled by this call, so that the next prompt can be traced to it. */
export function callStamp(callId: string | undefined): SharedV4ProviderMetadata | undefined {
  return callId === undefined ? undefined : { [providerName]: { callId } };
}

/** The reply as AI SDK content. It has at least one part: an empty reply too must come back with its stamp. */
export function toContent(
  { message }: Choice,
  providerMetadata: SharedV4ProviderMetadata | undefined,
): LanguageModelV4Content[] {
  const stamp = providerMetadata ? { providerMetadata } : {};
  const content: LanguageModelV4Content[] = [];
  const reasoning = message.reasoning || message.reasoning_content;
  if (reasoning) content.push({ type: 'reasoning', text: reasoning, ...stamp });
  const toolCalls = message.tool_calls ?? [];
  if (message.content || (!reasoning && toolCalls.length === 0)) {
    content.push({ type: 'text', text: message.content ?? '', ...stamp });
  }
  for (const { id, function: called } of toolCalls) {
    content.push({
      type: 'tool-call',
      toolCallId: id,
      toolName: called.name,
      input: called.arguments,
      ...stamp,
    });
  }
  return content;
}

const unified = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool-calls',
  function_call: 'tool-calls',
  content_filter: 'content-filter',
} as const;

export function toFinishReason(reason: FinishReason): LanguageModelV4FinishReason {
  return { unified: unified[reason], raw: reason };
}

export function toUsage(usage: Usage | undefined): LanguageModelV4Usage {
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  return {
    inputTokens: {
      total: usage?.prompt_tokens,
      noCache: usage === undefined || cached === undefined ? undefined : usage.prompt_tokens - cached,
      cacheRead: cached,
      cacheWrite: undefined,
    },
    outputTokens: { total: usage?.completion_tokens, text: undefined, reasoning: undefined },
  };
}
