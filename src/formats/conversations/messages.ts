import { type ToolCall, toolSchema } from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import {
  type PlainMessage,
  type RecordedReply,
  type RecordedScenario,
  Unreadable,
} from './recorded-scenario.ts';

/*
 * The forms of a message are alike enough for one reader. Content is a text, or parts under `content` (Chat Completions,
 * AI SDK) or `parts` (conventions of OpenTelemetry). Parts of the AI SDK have names such as `tool-call`, those of
 * OpenTelemetry names such as `tool_call`, with other fields.
 */

/** Types of parts with text, and the field that has it. */
const textParts = ['text', 'input_text', 'output_text', 'refusal'];
const reasoningParts = ['reasoning', 'thinking'];

/** The messages of a list in any of the forms. A message with the results of several tools becomes several. @throws Unreadable */
export function toMessages(list: unknown): PlainMessage[] {
  if (!Array.isArray(list)) throw new Unreadable('its messages are no list');
  return list.flatMap(toMessage);
}

/** The first message of the assistant in a list, or in one message. Null if there is none. @throws Unreadable */
export function toReply(value: unknown): RecordedReply | null {
  if (typeof value === 'string') return value === '' ? null : { role: 'assistant', content: value };
  const isMessage = isObject(value) && ['content', 'parts', 'tool_calls'].some((name) => name in value);
  const list = Array.isArray(value) ? value : isMessage ? [{ role: 'assistant', ...value }] : [];
  return toMessages(list).find((message) => message.role === 'assistant') ?? null;
}

function toMessage(value: unknown): PlainMessage[] {
  if (!isObject(value) || typeof value.role !== 'string') throw new Unreadable('a message has no role');
  const { role } = value;
  const parts = partsOf(value);
  switch (role) {
    case 'system':
    case 'developer':
      return [{ role: 'system', content: textOf(parts) }];
    case 'user':
      return [{ role: 'user', content: textOf(parts) }];
    case 'assistant':
      return [assistantMessage(value, parts)];
    case 'tool':
      return toolMessages(value, parts);
    default:
      throw new Unreadable(`a message has the role "${role.slice(0, 40)}"`);
  }
}

function partsOf({ content, parts, refusal }: JsonObject): unknown[] {
  const all = parts ?? content ?? refusal ?? [];
  return Array.isArray(all) ? all : [all];
}

function textOf(parts: readonly unknown[]): string {
  return parts.map((part) => partText(part, textParts)).join('');
}

/** @throws Unreadable for a part of another type, such as an image. */
function partText(part: unknown, types: readonly string[]): string {
  if (typeof part === 'string') return part;
  if (!isObject(part)) throw new Unreadable('a message has content that is no text');
  const { type = 'text' } = part;
  if (!types.includes(String(type))) throw new Unreadable(`a message has content of type "${String(type)}"`);
  const text = part.text ?? part.content ?? part.refusal ?? part.thinking;
  if (typeof text !== 'string') throw new Unreadable('a message has content that is no text');
  return text;
}

const typeOf = (part: unknown): string => (isObject(part) ? String(part.type ?? 'text') : 'text');

function assistantMessage(message: JsonObject, parts: readonly unknown[]): RecordedReply {
  const isCall = (part: unknown) => ['tool-call', 'tool_call'].includes(typeOf(part));
  const isReasoning = (part: unknown) => reasoningParts.includes(typeOf(part));
  const listed = Array.isArray(message.tool_calls) ? message.tool_calls : [];
  const calls = [...listed, ...parts.filter(isCall)].map(toToolCall);
  const text = textOf(parts.filter((part) => !isCall(part) && !isReasoning(part) && !isResult(part)));
  const reasoning =
    parts
      .filter(isReasoning)
      .map((part) => partText(part, reasoningParts))
      .join('') || [message.reasoning, message.reasoning_content].find((own) => typeof own === 'string');
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...(typeof reasoning === 'string' ? { reasoning } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function toToolCall(value: unknown): ToolCall {
  const call = isObject(value) ? value : {};
  const named = isObject(call.function) ? call.function : call;
  const name = named.name ?? named.toolName;
  const id = call.id ?? call.toolCallId ?? '';
  if (typeof name !== 'string' || typeof id !== 'string')
    throw new Unreadable('a tool call has no name or id');
  const input = named.arguments ?? named.input ?? named.args ?? {};
  return { id, type: 'function', function: { name, arguments: asText(input) } };
}

const isResult = (part: unknown) => ['tool-result', 'tool_call_response'].includes(typeOf(part));

function toolMessages(message: JsonObject, parts: readonly unknown[]): PlainMessage[] {
  if (!parts.some(isResult))
    return [{ role: 'tool', tool_call_id: String(message.tool_call_id ?? ''), content: textOf(parts) }];
  return parts.filter(isResult).map((part) => {
    const { id, toolCallId, output, response, result } = isObject(part) ? part : {};
    const value = isObject(output) && 'value' in output ? output.value : (output ?? response ?? result);
    return { role: 'tool', tool_call_id: String(id ?? toolCallId ?? ''), content: asText(value ?? '') };
  });
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** The tools of a list in any of the forms; undefined for none. @throws Unreadable for other tools than functions. */
export function toTools(list: unknown): RecordedScenario['tools'] {
  if (!Array.isArray(list) || list.length === 0) return undefined;
  return list.map((value) => {
    const tool = isObject(value) ? value : {};
    const { name, description, parameters, inputSchema } = isObject(tool.function) ? tool.function : tool;
    const { data, error } = toolSchema.safeParse({
      type: tool.type ?? 'function',
      function: { name, description, parameters: parameters ?? inputSchema },
    });
    if (error)
      throw new Unreadable(
        `a tool is no function (its type is "${String(tool.type)}", its name "${String(name)}")`,
      );
    return data;
  });
}
