import type { Choice, ParsedMessage, Tool } from '../../contract/index.ts';
import { invalidField, unsupportedField } from '../errors.ts';

/** A message as a chat template sees it. */
export interface TurnToolCall {
  id: string;
  name: string;
  arguments: string;
}

export interface Turn {
  role: string;
  content: string;
  toolCalls: TurnToolCall[];
  toolCallId?: string;
  name?: string;
  /** Sampled ids that stand for content and calls. */
  tokenIds?: readonly number[];
}

export type Location = (string | number)[];

export interface Conversation {
  turns: Turn[];
  tools: readonly Tool[] | undefined;
  /** Where the messages stand in the request, for errors. */
  location: Location;
}

/** A message of a request as a turn. What a template could not show is refused, not dropped. */
export function toTurn(message: ParsedMessage, location: Location): Turn {
  const name = message.name === undefined ? {} : { name: message.name };
  switch (message.role) {
    case 'tool':
      return {
        role: 'tool',
        content: textOf(message.content),
        toolCalls: [],
        toolCallId: message.tool_call_id,
        ...name,
      };
    case 'assistant':
      for (const field of ['refusal', 'reasoning', 'reasoning_content', 'function_call'] as const)
        if (message[field] !== undefined && message[field] !== '')
          throw unsupportedField([...location, field], message[field]);
      return {
        role: 'assistant',
        content: textOf(message.content),
        toolCalls: (message.tool_calls ?? []).map(({ id, function: called }) => ({
          id,
          name: called.name,
          arguments: compactJson(called.arguments),
        })),
        ...name,
        ...(message.token_ids && message.token_ids.length > 0 ? { tokenIds: message.token_ids } : {}),
      };
    case 'function':
      throw unsupportedField([...location, 'role'], 'function', 'use role "tool" with a tool_call_id');
    case 'developer':
      // The later name of the same role; templates know `system`.
      return { role: 'system', content: textOf(message.content), toolCalls: [], ...name };
    default:
      return { role: message.role, content: textOf(message.content), toolCalls: [], ...name };
  }
}

/** A choice that came back: its sampled ids stand in the conversation as they are. */
export function choiceToTurn(choice: Choice, location: Location): Turn {
  const { token_ids: tokenIds } = choice;
  if (!tokenIds || tokenIds.length === 0)
    throw invalidField(
      [...location, 'token_ids'],
      'a choice to train on needs the token ids that were sampled; ask for them with return_token_ids: true',
    );
  return { role: 'assistant', content: '', toolCalls: [], tokenIds };
}

function textOf(content: string | { text: string }[] | undefined): string {
  if (content === undefined) return '';
  return typeof content === 'string' ? content : content.map((part) => part.text).join('');
}

/** Arguments as models write them, without spaces; text that is no JSON stays as it is. */
export function compactJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
