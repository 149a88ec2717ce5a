import type { Attributes } from '@opentelemetry/api';
import type { ChatCompletionRequest, Choice } from '../contract/index.ts';
import { genAi } from './names.ts';

/** Turns the capture of content on where it is `true` as the process starts. */
export const captureContentVariable = 'MARTINGALE_CAPTURE_CONTENT';

let capturing = process.env[captureContentVariable] === 'true';

/**
 * Whether spans of model calls carry the conversation (`gen_ai.input.messages`, `gen_ai.output.messages`). Off by
 * default: prompts and replies may hold what must not reach a tracing backend. `MARTINGALE_CAPTURE_CONTENT=true` in
 * the environment turns it on too.
 */
export function captureContent(on = true): void {
  capturing = on;
}

type Sent = ChatCompletionRequest['messages'][number];

/** The messages of a call and its reply as the conventions write them; nothing unless `captureContent` is on. */
export function contentAttributes(
  messages: ChatCompletionRequest['messages'],
  { message, finish_reason }: Pick<Choice, 'message' | 'finish_reason'>,
): Attributes {
  if (!capturing) return {};
  return {
    [genAi.inputMessages]: JSON.stringify(messages.map(toMessage)),
    [genAi.outputMessages]: JSON.stringify([{ ...toMessage(message), finish_reason }]),
  };
}

function toMessage(message: Sent | Choice['message']) {
  const { role, content } = message;
  const calls = 'tool_calls' in message ? (message.tool_calls ?? []) : [];
  const answered = 'tool_call_id' in message ? message.tool_call_id : undefined;
  const text = typeof content === 'string' ? content : content == null ? null : JSON.stringify(content);
  const said = answered
    ? [{ type: 'tool_call_response', id: answered, response: text }]
    : text === null
      ? []
      : [{ type: 'text', content: text }];
  const called = calls.map(({ id, function: { name, arguments: given } }) => ({
    ...{ type: 'tool_call', id, name, arguments: given },
  }));
  return { role, parts: [...said, ...called] };
}
