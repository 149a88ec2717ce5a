import type { Choice, Message, Tool } from '../contract/index.ts';
import { messageKey, type RecordedCall, reasoningOf, replyKey } from './recorded-call.ts';

/** A history in JSON. */
export interface HistoryBody {
  messages_and_choices: (Message | Choice)[];
  tools?: Tool[];
}

/**
 * One conversation of a trajectory: messages, which are context, and choices, which the policy sampled. A call extends
 * the history only if its prompt begins with exactly the last prompt and the tokens sampled after it. So the choices of
 * a history are one token sequence, in the order of sampling. Replies of an external model are stored as messages,
 * because their tokens are unknown; its calls extend the history if they repeat the history's messages.
 */
export class History {
  /** Index of the call that the history began with. */
  readonly firstCall: number;
  #entries: (Message | Choice)[];
  #tools: Tool[] | undefined;
  /** Undefined in a restored history: its rollout has ended, so no call extends it. */
  #last: RecordedCall | undefined;

  private constructor(firstCall: number, entries: (Message | Choice)[], tools: Tool[] | undefined) {
    this.firstCall = firstCall;
    this.#entries = entries;
    this.#tools = tools;
  }

  /** A new conversation that starts with this call. */
  static begin(call: RecordedCall): History {
    const history = new History(call.index, [...call.messages, replyOf(call)], call.tools);
    history.#last = call;
    return history;
  }

  /** A conversation read from disk. It cannot be extended. */
  static restore(firstCall: number, { messages_and_choices, tools }: HistoryBody): History {
    return new History(firstCall, messages_and_choices, tools);
  }

  get entries(): (Message | Choice)[] {
    return this.#entries;
  }

  /** The tools of the last call. */
  get tools(): Tool[] | undefined {
    return this.#tools;
  }

  get choices(): Choice[] {
    return this.entries.filter((entry): entry is Choice => 'message' in entry);
  }

  /** Whether the call continues this conversation. */
  isExtendedBy(call: RecordedCall): boolean {
    if (!this.#last || call.messages.length < this.entries.length) return false;
    return call.external ? this.#isSentAgain(call.messages) : this.#isPrefixOf(call, this.#last);
  }

  /**
   * Whether the call has this conversation's messages, unedited replies and tools. If it still does not extend the
   * history, the chat template renders an earlier turn to other tokens than before.
   */
  isRepeatedBy({ messages, tools, external }: RecordedCall): boolean {
    if (!this.#last || external || !isSameTools(tools, this.#tools)) return false;
    return this.entries.every((entry, at) => {
      const message = messages[at];
      return message !== undefined && isUnedited(entry, message);
    });
  }

  /** Whether the call's prompt starts with the last prompt and the tokens that were sampled after it. */
  #isPrefixOf({ messages, promptTokenIds: ids }: RecordedCall, last: RecordedCall): boolean {
    if (messages[this.entries.length - 1]?.role !== 'assistant') return false;
    const prompt = last.promptTokenIds;
    const sampled = last.choice.token_ids ?? [];
    if (ids.length < prompt.length + sampled.length) return false;
    // Compare from the end: conversations of one agent share their beginning and differ late.
    for (let at = sampled.length - 1; at >= 0; at--)
      if (ids[prompt.length + at] !== sampled[at]) return false;
    for (let at = prompt.length - 1; at >= 0; at--) if (ids[at] !== prompt[at]) return false;
    return true;
  }

  /** For external models. Ignores the tool arguments of replies, because agent libraries serialize them again. */
  #isSentAgain(messages: readonly Message[]): boolean {
    for (let at = this.entries.length - 1; at >= 0; at--) {
      const [entry, message] = [this.entries[at], messages[at]];
      if (!entry || !message || 'message' in entry || entry.role !== message.role) return false;
      const keyOf = message.role === 'assistant' ? replyKey : messageKey;
      if (keyOf(entry) !== keyOf(message)) return false;
    }
    return true;
  }

  extend(call: RecordedCall): void {
    for (let at = this.entries.length; at < call.messages.length; at++) {
      const message = call.messages[at];
      if (message) this.#entries.push(message);
    }
    this.#entries.push(replyOf(call));
    this.#tools = call.tools;
    this.#last = call;
  }

  /** Freezes the history. Tools may be the user's objects, so their JSON is copied. */
  seal(): void {
    this.#tools &&= JSON.parse(JSON.stringify(this.#tools));
    freezeAll(this.entries);
  }

  /** Keeps the choices alone, in the form that they have in `lean`. */
  release(lean: ReadonlyMap<Choice, Choice>): void {
    this.#entries = this.choices.map((choice) => lean.get(choice) ?? choice);
    this.#tools = undefined;
    this.#last = undefined;
  }

  toBody(): HistoryBody {
    return { messages_and_choices: this.#entries, ...(this.#tools ? { tools: this.#tools } : {}) };
  }
}

const replyOf = ({ external, choice }: RecordedCall): Message | Choice => external?.reply ?? choice;

export function isSameTools(a: Tool[] | undefined, b: Tool[] | undefined): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/** Whether a message of a later prompt is the entry, with its reasoning. */
function isUnedited(entry: Message | Choice, message: Message): boolean {
  if (entry === message) return true;
  if (!('message' in entry)) return messageKey(entry) === messageKey(message);
  return (
    message.role === 'assistant' &&
    replyKey(entry.message) === replyKey(message) &&
    reasoningOf(entry.message) === reasoningOf(message)
  );
}

function freezeAll(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  // Arrays of numbers can have thousands of items and nothing to freeze.
  if (Array.isArray(value) && typeof value[0] === 'number') return;
  for (const part of Object.values(value)) freezeAll(part);
}
