import { genAi } from '../../telemetry/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import { toOpening, toReply, toTools } from './messages.ts';
import { type RecordedCall, Unreadable } from './recorded-scenario.ts';
import { nested, type Span } from './spans.ts';

/** Where a convention keeps the content of a call; undefined where a span has no content. */
interface CallContent {
  messages: unknown;
  reply: unknown;
  tools: unknown;
}

/**
 * The model call of a span, by the conventions of OpenTelemetry (attributes, and the events of its earlier versions), of
 * OpenLLMetry, the AI SDK, OpenInference and Langfuse. Null for a span that is no model call.
 * @throws Unreadable for a call whose content was not recorded or is no text.
 */
export function callOfSpan({ attributes, events, trace, timeMs }: Span): RecordedCall | null {
  if (!isModelCall(attributes)) return null;
  const content = contentOf(attributes, events);
  if (!content)
    throw new Unreadable(
      'a model call without its messages: recording them is switched off, or they are in logs',
    );
  const { messages, reply, isWhole } = toOpening(content.messages);
  return {
    messages,
    reply: isWhole ? toReply(content.reply) : reply,
    tools: toTools(content.tools),
    model: firstText(attributes, modelNames),
    conversation: conversationOf(attributes),
    trace,
    timeMs,
  };
}

/** The content of a call by the first convention that the span follows. A span may follow several. */
function contentOf(attributes: JsonObject, events: Span['events']): CallContent | undefined {
  for (const read of [
    fromAttributes,
    fromEvents,
    fromOpenLlmetry,
    fromAiSdk,
    fromOpenInference,
    fromLangfuse,
  ]) {
    const content = read(attributes, events);
    if (content.messages !== undefined) return content;
  }
  return undefined;
}

const modelNames = [genAi.requestModel, 'ai.model.id', 'llm.model_name', 'langfuse.observation.model.name'];
const conversationNames = [genAi.conversationId, 'session.id', 'langfuse.session.id'];

/** The id of the conversation or session that a span belongs to; a trace may have it in another span than its calls. */
export const conversationOf = (attributes: JsonObject): string | null =>
  firstText(attributes, conversationNames);

function firstText(attributes: JsonObject, names: readonly string[]): string | null {
  const found = names
    .map((name) => attributes[name])
    .find((value) => typeof value === 'string' && value !== '');
  return typeof found === 'string' ? found : null;
}

/** Spans of agents, steps and tools have the content of the calls within them once more. */
function isModelCall(attributes: JsonObject): boolean {
  const operation = attributes[genAi.operationName];
  if (typeof operation === 'string')
    return ['chat', 'text_completion', 'generate_content'].includes(operation);
  return (
    /\.do(Generate|Stream)$/.test(String(attributes['ai.operationId'])) ||
    attributes['openinference.span.kind'] === 'LLM' ||
    attributes['langfuse.observation.type'] === 'generation' ||
    ['chat', 'completion'].includes(String(attributes['llm.request.type']))
  );
}

/** A value that may be JSON in a text. */
function parsed(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    throw new Unreadable('an attribute is cut off: it is not JSON');
  }
}

/** github.com/open-telemetry/semantic-conventions-genai. */
function fromAttributes(attributes: JsonObject): CallContent {
  const messages = parsed(attributes[genAi.inputMessages]);
  const instructions = parsed(attributes[genAi.systemInstructions]);
  const system = instructions === undefined ? [] : [{ role: 'system', parts: instructions }];
  return {
    messages: Array.isArray(messages) ? [...system, ...messages] : messages,
    reply: parsed(attributes[genAi.outputMessages]),
    tools: parsed(attributes[genAi.toolDefinitions]),
  };
}

/** Events of spans, in earlier versions of the conventions: one for each message, and before that one for all. */
function fromEvents(_: JsonObject, events: Span['events']): CallContent {
  const messages: unknown[] = [];
  let reply: unknown;
  for (const { name, attributes } of events) {
    const [, role] = /^gen_ai\.(system|user|assistant|tool)\.message$/.exec(name) ?? [];
    const body = parsed(attributes['gen_ai.event.content']) ?? attributes;
    const fields = isObject(body) ? body : { content: body };
    if (role !== undefined) messages.push({ role, tool_call_id: fields.id, ...fields });
    else if (name === 'gen_ai.choice') reply ??= isObject(fields.message) ? fields.message : fields;
    else if (name === 'gen_ai.content.prompt') messages.push(...listIn(attributes['gen_ai.prompt']));
    else if (name === 'gen_ai.content.completion') reply ??= listIn(attributes['gen_ai.completion']);
  }
  return { messages: messages.length > 0 ? messages : undefined, reply, tools: undefined };
}

function listIn(value: unknown): unknown[] {
  const list = parsed(value);
  return Array.isArray(list) ? list : [{ role: 'user', content: list }];
}

/** github.com/traceloop/openllmetry, before it took the attributes of the conventions: one attribute for each field. */
function fromOpenLlmetry(attributes: JsonObject): CallContent {
  const withParts = (value: unknown) =>
    membersOf(value)?.map((message) => ({ ...message, content: partsIn(message.content) }));
  return {
    messages: withParts(nested(attributes, 'gen_ai.prompt')),
    reply: withParts(nested(attributes, 'gen_ai.completion')),
    tools: membersOf(nested(attributes, 'llm.request.functions'))?.map(
      ({ name, description, ...schema }) => ({
        name,
        description,
        // Its JavaScript and its Python give the schema different names.
        parameters: parsed(schema.parameters ?? schema.arguments),
      }),
    ),
  };
}

const membersOf = (value: unknown): JsonObject[] | undefined =>
  Array.isArray(value) ? value.filter(isObject) : undefined;

/** Content that is no text is JSON in a text there. A text that only looks like JSON stays a text. */
function partsIn(content: unknown): unknown {
  if (content === 'null') return null;
  if (typeof content !== 'string' || !content.startsWith('[{"type":')) return content;
  return parsed(content);
}

/** The telemetry of the AI SDK, in its own attributes. */
function fromAiSdk(attributes: JsonObject): CallContent {
  const { 'ai.response.text': content, 'ai.response.reasoning': reasoning } = attributes;
  const calls = parsed(attributes['ai.response.toolCalls']);
  const object = attributes['ai.response.object'];
  const answered = [content, calls, object].some((one) => one !== undefined);
  const tools = attributes['ai.prompt.tools'];
  return {
    messages: parsed(attributes['ai.prompt.messages']),
    reply: answered ? { content: content ?? object ?? '', reasoning, tool_calls: calls } : undefined,
    tools: Array.isArray(tools) ? tools.map(parsed) : undefined,
  };
}

/** github.com/Arize-ai/openinference, what Phoenix shows: one attribute for each field. */
function fromOpenInference(attributes: JsonObject): CallContent {
  const unwrapped = (value: unknown, name: string) => membersOf(value)?.map((one) => one[name]);
  const messagesOf = (prefix: string) =>
    membersOf(unwrapped(nested(attributes, prefix), 'message'))?.map((message) => ({
      ...message,
      content: unwrapped(message.contents, 'message_content') ?? message.content,
      tool_calls: unwrapped(message.tool_calls, 'tool_call'),
    }));
  return {
    messages: messagesOf('llm.input_messages'),
    reply: messagesOf('llm.output_messages'),
    tools: membersOf(unwrapped(nested(attributes, 'llm.tools'), 'tool'))?.map((tool) =>
      parsed(tool.json_schema),
    ),
  };
}

/** github.com/langfuse/langfuse-js: what the program passed as input and output of a generation. */
function fromLangfuse(attributes: JsonObject): CallContent {
  const input = parsed(attributes['langfuse.observation.input']);
  const { messages, tools }: JsonObject = isObject(input) ? input : { messages: input };
  if (input !== undefined && messages === undefined) throw new Unreadable('an input that holds no messages');
  return {
    messages: typeof messages === 'string' ? [{ role: 'user', content: messages }] : messages,
    reply: parsed(attributes['langfuse.observation.output']),
    tools,
  };
}
