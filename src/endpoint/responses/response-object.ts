import type { FinishReason, Usage } from '../../contract/index.ts';
import type { OutputItem } from '../response-memory.ts';
import type { ResponseBody } from './response-body.ts';

export const encodeReasoning = (text: string): string => Buffer.from(text, 'utf8').toString('base64');
export const decodeReasoning = (encoded: string): string => Buffer.from(encoded, 'base64').toString('utf8');

interface ResponseState {
  id: string;
  createdAt: number;
  /** Pinned name of the model that answers. */
  model: string;
  body: ResponseBody;
  output: readonly OutputItem[];
}

/** Outcome of a response. */
export type ResponseEnd =
  | { status: 'in_progress' }
  | { status: 'answered'; finishReason: FinishReason; usage: Usage | undefined }
  | { status: 'failed'; code: string; message: string };

/** A response object of the Responses API, including the request's settings. */
export function responseObject({ id, createdAt, model, body, output }: ResponseState, end: ResponseEnd) {
  const format = body.text?.format ?? { type: 'text' };
  return {
    id,
    object: 'response',
    created_at: createdAt,
    model,
    output,
    ...ending(end),
    background: false,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    metadata: body.metadata ?? {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    reasoning: { effort: body.reasoning?.effort ?? null, summary: null },
    service_tier: 'default',
    store: body.store ?? true,
    temperature: body.temperature ?? null,
    text: { format },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_p: body.top_p ?? null,
    truncation: 'disabled',
    user: body.user ?? null,
  };
}

function ending(end: ResponseEnd) {
  const none = { error: null, incomplete_details: null, usage: null };
  if (end.status === 'in_progress') return { ...none, status: 'in_progress' };
  if (end.status === 'failed')
    return { ...none, status: 'failed', error: { code: end.code, message: end.message } };
  const reason = incompleteReason(end.finishReason);
  return {
    ...none,
    status: reason ? 'incomplete' : 'completed',
    incomplete_details: reason ? { reason } : null,
    usage: end.usage ? usageOf(end.usage) : null,
  };
}

/** Why a reply is incomplete; undefined if it is complete. */
export function incompleteReason(reason: FinishReason): 'max_output_tokens' | 'content_filter' | undefined {
  if (reason === 'length') return 'max_output_tokens';
  return reason === 'content_filter' ? reason : undefined;
}

function usageOf(usage: Usage) {
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: { cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0 },
    output_tokens: usage.completion_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.total_tokens,
  };
}
