import { type ToolCall, toolSchema } from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import { type RecordedReply, type RecordedScenario, Unreadable } from './recorded-scenario.ts';

/*
 * The forms of a message are alike enough for one reader. Content is a text, or parts under `content` (Chat Completions,
 * AI SDK) or `parts` (conventions of OpenTelemetry). Parts have other names and fields in each: `tool-call` in
 * the AI SDK, `tool_call` in OpenTelemetry.
 */

/** Types of parts with text, and the field that has it. */
const textParts = ['text', 'input_text', 'output_text', 'refusal'];
const reasoningParts = ['reasoning', 'thinking'];

/** How a conversation began. `isWhole`: there is nothing after it, so the reply is still to come. */
interface Opening {
  messages: RecordedScenario['messages'];
  reply: RecordedReply | null;
  isWhole: boolean;
}

/** The messages of a list in any of the forms, up to the first reply, and that reply. @throws Unreadable */
export function toOpening(list: unknown): Opening {
  if (!Array.isArray(list)) throw new Unreadable('its messages are no list');
  const messages: Opening['messages'] = [];
  for (const value of list) {
    if (!isObject(value) || typeof value.role !== 'string') throw new Unreadable('a message has no role');
    const role = openingRoles.get(value.role);
    if (role) {
      messages.push({ role, content: textOf(partsOf(value)) });
      continue;
    }
    if (!['assistant', 'tool'].includes(value.role))
      throw new Unreadable(`a message has the role "${value.role.slice(0, 40)}"`);
    if (messages.length === 0)
      throw new Unreadable('a conversation that begins with a reply or the result of a tool');
    return { messages, reply: value.role === 'assistant' ? assistantMessage(value) : null, isWhole: false };
  }
  if (messages.length === 0) throw new Unreadable('a conversation without a message');
  return { messages, reply: null, isWhole: true };
}

const openingRoles: ReadonlyMap<string, 'system' | 'user'> = new Map([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
]);

/** The first message of the assistant in a list, or in one message. Null if there is none. @throws Unreadable */
export function toReply(value: unknown): RecordedReply | null {
  if (typeof value === 'string') return value === '' ? null : { role: 'assistant', content: value };
  const isMessage = isObject(value) && ['content', 'parts', 'tool_calls'].some((name) => name in value);
  const list: unknown[] = Array.isArray(value) ? value : isMessage ? [value] : [];
  const found = list.find((one) => isObject(one) && (one.role ?? 'assistant') === 'assistant');
  return isObject(found) ? assistantMessage(found) : null;
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

function assistantMessage(message: JsonObject): RecordedReply {
  const parts = partsOf(message);
  const isCall = (part: unknown) => ['tool-call', 'tool_call'].includes(typeOf(part));
  const isReasoning = (part: unknown) => reasoningParts.includes(typeOf(part));
  const listed = Array.isArray(message.tool_calls) ? message.tool_calls : [];
  const calls = [...listed, ...parts.filter(isCall)].map(toToolCall);
  const text = textOf(parts.filter((part) => !isCall(part) && !isReasoning(part)));
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
