import type { Choice, Message, Tool } from '../contract/index.ts';
import { History } from './history.ts';
import { type AssistantMessage, sampledMessage } from './sampled-message.ts';

/** One answered call of a externalModel: what was said is known, the tokens are not. */
export interface SpokenCall {
  /** Place among the trajectory's calls, in the order in which they began. */
  index: number;
  messages: readonly Message[];
  tools: Tool[] | undefined;
  /** The reply, without token ids and log-probabilities. */
  choice: Choice;
  /** Name of what answered. */
  model: string;
  /** As the provider counts them; 0 where it does not say. */
  promptTokens: number;
  sampledTokens: number;
}

/** What stands in the conversation for an external model's reply. */
export function replyOf({ choice }: SpokenCall): AssistantMessage {
  return sampledMessage(choice, { tokenIds: false });
}

interface SpokenFields {
  content?: Message['content'];
  reasoning_content?: string | null | undefined;
  tool_calls?: AssistantMessage['tool_calls'];
}

/** An external model's reply as rewards see it, from what stands in its conversation. */
export function toSpokenChoice(
  { content, reasoning_content, tool_calls }: SpokenFields,
  finishReason: Choice['finish_reason'],
): Choice {
  const text = Array.isArray(content)
    ? content.map((part) => ('text' in part ? part.text : '')).join('')
    : content;
  return {
    index: 0,
    message: {
      role: 'assistant',
      content: text ?? null,
      ...(reasoning_content ? { reasoning_content } : {}),
      ...(tool_calls?.length ? { tool_calls } : {}),
    },
    finish_reason: finishReason,
  };
}

/**
 * The conversation with the call added to it, where the call goes on from it message for message. Tool arguments of
 * replies are not compared: agents' libraries write them again.
 */
export function continuedBy(history: History, call: SpokenCall, reply: Message): History | undefined {
  const { entries, firstCall } = history;
  if (entries.length > call.messages.length) return undefined;
  for (let at = entries.length - 1; at >= 0; at--) {
    const [entry, message] = [entries[at], call.messages[at]];
    if (!entry || !message || 'message' in entry || keyOf(entry) !== keyOf(message)) return undefined;
  }
  return toHistory(firstCall, [...entries, ...call.messages.slice(entries.length), reply], call);
}

/** The conversation that the call begins. */
export function begunBy(call: SpokenCall, reply: Message): History {
  return toHistory(call.index, [...call.messages, reply], call);
}

function toHistory(firstCall: number, entries: History['entries'], { tools }: SpokenCall): History {
  return History.restore(firstCall, { messages_and_choices: entries, ...(tools ? { tools } : {}) });
}

function keyOf(message: Message): string {
  if (message.role !== 'assistant') return JSON.stringify(message);
  const calls = (message.tool_calls ?? []).map((call) => [call.id, call.function.name]);
  return JSON.stringify([message.role, message.content ?? '', calls]);
}
