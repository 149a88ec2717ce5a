import type { Choice, Message } from '../contract/index.ts';
import { sampledMessage } from './sampled-message.ts';

type Entry = Message | Choice;

/**
 * The messages of a call, told by where they differ from the history that its choice stands in: there, earlier
 * replies are choices, whose tokens are written once.
 */
export interface SentMessages {
  /** True where the earlier replies went out as text, without the ids that were sampled. */
  as_text?: boolean;
  /** Messages that went out otherwise than the history has them, by their place. */
  messages?: Record<string, Message>;
}

/** `entries`: the history up to the call's choice. */
export function packSentMessages(sent: readonly Message[], entries: readonly Entry[]): SentMessages {
  const withIds = differences(sent, entries, true);
  if (withIds.length === 0) return {};
  const asText = differences(sent, entries, false);
  const fewest = asText.length < withIds.length ? asText : withIds;
  return {
    ...(fewest === asText ? { as_text: true } : {}),
    ...(fewest.length > 0 ? { messages: Object.fromEntries(fewest) } : {}),
  };
}

/** The messages that `packSentMessages` was given. */
export function unpackSentMessages(
  { as_text: asText = false, messages = {} }: SentMessages,
  entries: readonly Entry[],
): Message[] {
  return entries.map((entry, at) => messages[at] ?? asMessage(entry, !asText));
}

function differences(
  sent: readonly Message[],
  entries: readonly Entry[],
  tokenIds: boolean,
): [number, Message][] {
  return sent.flatMap((message, at): [number, Message][] => {
    const entry = entries[at];
    const isSame = message === entry || (entry && isWrittenAlike(message, asMessage(entry, tokenIds)));
    return isSame ? [] : [[at, message]];
  });
}

const asMessage = (entry: Entry, tokenIds: boolean): Message =>
  'message' in entry ? sampledMessage(entry, { tokenIds }) : entry;

/** A reply mostly goes out with the very texts and ids of its choice, which are long. */
function isWrittenAlike(a: Message, b: Message): boolean {
  const fields = Object.entries(a);
  const isSame =
    fields.length === Object.keys(b).length &&
    fields.every(([name, value]) => Reflect.get(b, name) === value);
  return isSame || JSON.stringify(a) === JSON.stringify(b);
}
