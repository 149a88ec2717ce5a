import type { Choice, Usage } from '../../contract/index.ts';
import { reasoningOf } from '../../trajectory/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import { encodeReasoning } from '../responses/response-object.ts';

/** Content blocks of the Messages API. */
export interface ThinkingBlock {
  type: 'thinking';
  thinking: string;
  /** The text, for clients that get and send back only this field. */
  signature: string;
}

export interface TextBlock {
  type: 'text';
  text: string;
  citations: null;
}

interface ToolUseBlock {
  type: 'tool_use';
  id: string;
  name: string;
  input: JsonObject;
  caller: { type: 'direct' };
}

export type ContentBlock = ThinkingBlock | TextBlock | ToolUseBlock;

export const thinkingBlock = (thinking: string, { omits }: { omits: boolean }): ThinkingBlock => ({
  type: 'thinking',
  thinking: omits ? '' : thinking,
  signature: encodeReasoning(thinking),
});

export const textBlock = (text: string): TextBlock => ({ type: 'text', text, citations: null });

export const toolUseBlocks = ({ message }: Choice): ToolUseBlock[] =>
  (message.tool_calls ?? []).map(({ id, function: { name, arguments: written } }) => ({
    type: 'tool_use',
    id,
    name,
    input: toInput(written),
    caller: { type: 'direct' },
  }));

/** The blocks of a whole reply. An empty reply has an empty text, so that the next request can include it. */
export function blocksOf(choice: Choice, { omitsThinking }: { omitsThinking: boolean }): ContentBlock[] {
  const { message } = choice;
  const reasoning = reasoningOf(message);
  const calls = toolUseBlocks(choice);
  return [
    ...(reasoning === '' ? [] : [thinkingBlock(reasoning, { omits: omitsThinking })]),
    ...(message.content || calls.length === 0 ? [textBlock(message.content ?? '')] : []),
    ...calls,
  ];
}

/** The member for arguments that are not a JSON object. Anthropic's documentation has the name. */
const invalidJson = 'INVALID_JSON';

/** The input of a call, which is always an object: a tool gets malformed arguments as text, and can refuse them. */
function toInput(written: string): JsonObject {
  try {
    const input: unknown = JSON.parse(written || '{}');
    if (isObject(input)) return input;
  } catch {
    // Not JSON.
  }
  return { [invalidJson]: written };
}

/** The arguments of a call that an agent sends back. */
export function toArguments(input: JsonObject): string {
  const written = input[invalidJson];
  return typeof written === 'string' ? written : JSON.stringify(input);
}

/** Why a reply ended, and at which stop sequence. */
export function endOf({ finish_reason: reason, stop_reason, stop_string, message }: Choice) {
  // Other services have the stop string as the stop reason.
  const stop = stop_string ?? stop_reason;
  if (reason === 'length') return { stop_reason: 'max_tokens', stop_sequence: null };
  if (reason === 'content_filter') return { stop_reason: 'refusal', stop_sequence: null };
  if (reason !== 'tool_calls' && typeof stop === 'string')
    return { stop_reason: 'stop_sequence', stop_sequence: stop };
  return { stop_reason: message.tool_calls?.length ? 'tool_use' : 'end_turn', stop_sequence: null };
}

/** Tokens of the prompt that were computed before are counted apart from the others. */
export function usageOf(usage: Usage | undefined) {
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  return {
    input_tokens: (usage?.prompt_tokens ?? cached) - cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: usage?.completion_tokens ?? 0,
  };
}
