import { requestLimits, textOf } from '../../contract/basics.ts';
import type { Choice, ParsedMessage, Tool } from '../../contract/index.ts';
import { isDeeperThan } from '../../util/json.ts';
import { invalidField, type Location, unsupportedField } from '../error.ts';

export interface TurnToolCall {
  id: string;
  name: string;
  arguments: string;
}

/** A message as a chat template sees it. */
export interface Turn {
  role: string;
  content: string;
  toolCalls: TurnToolCall[];
  /** The assistant's reasoning before the content. */
  reasoning?: string;
  toolCallId?: string;
  name?: string;
  /** Sampled ids. They replace content, reasoning and calls. */
  tokenIds?: readonly number[];
}

export interface Conversation {
  turns: Turn[];
  tools: readonly Tool[] | undefined;
  /** Path of the messages in the request, for errors. */
  location: Location;
}

type AssistantMessage = Extract<ParsedMessage, { role: 'assistant' }>;

/** Converts a message of a request to a turn. Fields that a template cannot show are refused, not dropped. */
export function toTurn(message: ParsedMessage, location: Location): Turn {
  if (isAssistant(message)) return toAssistantTurn(message, location);
  const { content, name } = message;
  const turn = {
    content: textOf(content),
    toolCalls: [],
    ...(name === undefined || name === '' ? {} : { name }),
  };
  switch (message.role) {
    case 'tool':
      return {
        ...turn,
        role: 'tool',
        ...(message.tool_call_id === undefined ? {} : { toolCallId: message.tool_call_id }),
      };
    case 'function':
      // The older form of a tool result, with a name instead of the call's id.
      return { ...turn, role: 'tool' };
    case 'developer':
      // The newer name of `system`, which templates know.
      return { ...turn, role: 'system' };
    default:
      return { ...turn, role: message.role };
  }
}

// The role alone does not narrow the type, because the generic message may have any role.
const isAssistant = (message: ParsedMessage): message is AssistantMessage => message.role === 'assistant';

function toAssistantTurn(message: AssistantMessage, location: Location): Turn {
  if (message.audio !== undefined)
    throw unsupportedField(
      [...location, 'audio'],
      message.audio,
      'audio is not supported: the models read only text. Send the words as content',
    );
  const { token_ids: tokenIds, name } = message;
  const turn = {
    role: 'assistant',
    content: contentOf(message, location),
    toolCalls: callsOf(message, location),
  };
  const reasoning = reasoningOf(message, location);
  if (tokenIds && tokenIds.length > 0) return { ...turn, tokenIds };
  return { ...turn, ...(name ? { name } : {}), ...(reasoning ? { reasoning } : {}) };
}

function contentOf({ content, refusal }: AssistantMessage, location: Location): string {
  const text = textOf(content);
  if (!refusal || refusal === text) return text;
  if (text !== '')
    throw invalidField(
      [...location, 'refusal'],
      'replaces the content of a message, but this message also has content; send only one',
      refusal,
    );
  return refusal;
}

function reasoningOf(
  { reasoning, reasoning_content: other }: AssistantMessage,
  location: Location,
): string | undefined {
  if (reasoning !== undefined && other !== undefined && reasoning !== other)
    throw invalidField(
      [...location, 'reasoning_content'],
      'is another name for reasoning; if both are sent, they must be equal',
      other,
    );
  return reasoning ?? other;
}

function callsOf(
  { tool_calls: calls = [], function_call: single }: AssistantMessage,
  location: Location,
): TurnToolCall[] {
  const compact = compactingCalls();
  if (!single)
    return calls.map(({ id, function: called }) => ({
      id,
      name: called.name,
      arguments: compact(called.arguments),
    }));
  if (calls.length > 0)
    throw invalidField(
      [...location, 'function_call'],
      'is the older form of tool_calls, but this message has both; send only one',
      single,
    );
  return [{ id: '', name: single.name, arguments: compact(single.arguments) }];
}

/** Converts a choice that a client sent back. Its sampled ids enter the conversation unchanged. */
export function choiceToTurn(choice: Choice, location: Location): Turn {
  const { token_ids: tokenIds } = choice;
  if (!tokenIds || tokenIds.length === 0)
    throw invalidField(
      [...location, 'token_ids'],
      'a choice for training needs its sampled token ids. Trained models (entity/project/name) return them unless return_token_ids is false: send the choice back unchanged. For streams, keep the logprobs entries unchanged, which contain the ids',
      tokenIds ?? choice,
    );
  return { role: 'assistant', content: '', toolCalls: [], tokenIds };
}

/** Characters of all texts in a value; a number, such as a token id, counts as one. */
export function charactersIn(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let characters = 0;
  for (const inner of Array.isArray(value) ? value : Object.values(value))
    characters += typeof inner === 'number' ? 1 : charactersIn(inner);
  return characters;
}

/** Maximum characters of call arguments parsed per message; parsing them takes some milliseconds. */
const maxParsed = 65_536;

/**
 * Returns a function that rewrites the arguments of one message's calls, in order, as models write them: JSON without
 * spaces. Arguments that are not JSON, are nested deeper than a body may be, or come after 65,536 characters stay
 * unchanged. The result depends on the message alone, so sampling and training agree.
 */
function compactingCalls(): (text: string) => string {
  let characters = 0;
  return (text) => {
    characters += text.length;
    return characters > maxParsed ? text : compactJson(text);
  };
}

/** Takes white space away, and writes texts as `JSON.stringify` does. Numbers and the order of members stay. */
function compactJson(text: string): string {
  try {
    if (isDeeperThan(JSON.parse(text), requestLimits.depth)) return text;
    return text.replace(textOrSpace, (found) =>
      found.startsWith('"') ? JSON.stringify(JSON.parse(found)) : '',
    );
  } catch {
    return text;
  }
}

const textOrSpace = /"(?:[^"\\]|\\.)*"|\s+/g;
