import { LanguageError } from '../error.ts';
import type { Channels } from '../tokenizer/tokenizer.ts';
import type { CodedPart } from './coded-template.ts';
import type { Turn } from './conversation.ts';

/** A message that the template has written: its range of parts, which ends after its end token, and its header. */
interface WrittenMessage {
  start: number;
  end: number;
  role: string;
  channel: string;
}

/** What the template has written of a turn. */
interface WrittenTurn {
  start: number;
  end: number;
  /** Where the call or the final message begins; `start` if no reasoning comes before it. */
  last: number;
}

interface MessageTokens {
  channels: Channels;
  /** Those that may end a message. */
  ends: ReadonlySet<number>;
}

/** The turns among the messages that the template has written. @throws LanguageError if it leaves one out */
export function turnsIn(
  parts: readonly CodedPart[],
  turns: readonly Turn[],
  tokens: MessageTokens,
): (WrittenTurn | null)[] {
  const messages = messagesIn(parts, tokens);
  const isInstructions = ({ role }: WrittenMessage) => role === 'system' || role === 'developer';
  const first = messages.findIndex((message) => !isInstructions(message));
  let at = first < 0 ? messages.length : first;
  return turns.map((turn, index) => {
    const { role } = turn;
    if (index === 0 && role === 'system') return null;
    const isThought = ({ role: by, channel }: WrittenMessage) => by === 'assistant' && channel === 'analysis';
    const message = messages[at++];
    const next = messages[at];
    if (role === 'assistant' && message && isThought(message) && next?.role.startsWith('assistant')) {
      at++;
      return { start: message.start, last: next.start, end: next.end };
    }
    if (!message || !isBy(role, message))
      throw templateRefusal(
        `leaves out messages of the role ${role} at this place, so the model would not see message ${index}. Send instructions in the first message, and results after their calls`,
      );
    return { start: message.start, last: message.start, end: message.end };
  });
}

function messagesIn(parts: readonly CodedPart[], { channels, ends }: MessageTokens): WrittenMessage[] {
  const { start, channel, message } = channels;
  const messages: WrittenMessage[] = [];
  let open: WrittenMessage | null = null;
  let place: 'role' | 'channel' | 'text' = 'role';
  for (const [index, part] of parts.entries()) {
    if (part.type === 'text') {
      if (open && place !== 'text') open[place] += part.text;
    } else if (part.token === start) {
      open = { start: index, end: index, role: '', channel: '' };
      place = 'role';
    } else if (part.token === channel) place = 'channel';
    else if (part.token === message) place = 'text';
    else if (open && place === 'text' && ends.has(part.token)) {
      messages.push({ ...open, end: index + 1 });
      open = null;
    }
  }
  return messages;
}

function isBy(role: string, message: WrittenMessage): boolean {
  if (role === 'tool') return / to=assistant$/.test(message.role);
  return role === 'assistant' ? message.role.startsWith('assistant') : message.role === role;
}

export const templateRefusal = (what: string) =>
  new LanguageError('not_in_chat_template', `The model's chat template ${what}.`);
