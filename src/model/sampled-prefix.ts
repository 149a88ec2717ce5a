import type { Choice, Message } from '../contract/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import type { PromptMessages } from './prompt-messages.ts';

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/**
 * Puts back what the policy sampled. Agents' libraries rewrite history (arguments are written again, malformed ones
 * become `{}`), so an assistant message that a recorded call sampled is replaced by that call's own text and
 * `token_ids`. Done only where everything before the message is what was sent then and its text and tool calls are
 * still the sampled ones: an edited conversation goes out as text, and a new history begins by itself.
 *
 * Tool arguments are not compared: a tool's schema may have filled in defaults, and the call's id tells them apart.
 */
export function restoreSampled(
  { messages, callIds }: PromptMessages,
  trajectory: Trajectory,
  { sendTokenIds }: { sendTokenIds: boolean },
): Message[] {
  const restored = [...messages];
  for (const [index, callId] of callIds.entries()) {
    const call = callId === undefined ? undefined : trajectory.call(callId);
    const message = messages[index];
    if (call?.messages.length !== index || message?.role !== 'assistant') continue;
    if (!isTextOf(call.choice, message)) continue;
    if (!call.messages.every((sent, at) => isSameMessage(sent, restored[at]))) continue;
    // The same objects as were sent: the next comparison of this prefix is by identity.
    for (const [at, sent] of call.messages.entries()) restored[at] = sent;
    restored[index] = sampledMessage(call.choice, sendTokenIds);
  }
  return restored;
}

function sampledMessage({ message, token_ids }: Choice, sendTokenIds: boolean): AssistantMessage {
  return {
    role: 'assistant',
    content: message.content,
    ...(message.reasoning ? { reasoning: message.reasoning } : {}),
    ...(message.reasoning_content ? { reasoning_content: message.reasoning_content } : {}),
    ...(message.tool_calls?.length ? { tool_calls: message.tool_calls } : {}),
    ...(sendTokenIds && token_ids ? { token_ids } : {}),
  };
}

function isTextOf(
  { message }: Choice,
  now: Pick<AssistantMessage, 'content' | 'reasoning_content' | 'tool_calls'>,
): boolean {
  const calls = message.tool_calls ?? [];
  const callsNow = now.tool_calls ?? [];
  return (
    (message.content ?? '') === (now.content ?? '') &&
    (message.reasoning || message.reasoning_content || '') === (now.reasoning_content ?? '') &&
    calls.length === callsNow.length &&
    calls.every(
      (call, at) => call.id === callsNow[at]?.id && call.function.name === callsNow[at]?.function.name,
    )
  );
}

function isSameMessage(a: Message, b: Message | undefined): boolean {
  if (a === b) return true;
  if (a.role !== b?.role) return false;
  if (typeof a.content === 'string' && a.content !== b.content) return false;
  return JSON.stringify(a) === JSON.stringify(b);
}
