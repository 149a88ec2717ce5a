import type { Choice, Message, Tool } from '../contract/index.ts';
import type { RecordedCall } from './recorded-call.ts';

/** A history as it is written. */
export interface Conversation {
  messages_and_choices: (Message | Choice)[];
  tools?: Tool[];
}

/**
 * One conversation of a trajectory: messages, which are context, and choices, which the policy sampled. A call belongs
 * to it only if the call's prompt begins with exactly the tokens that the history ends in, so the choices of a history
 * are one sequence of tokens and each was sampled after the ones before it. An external model's replies, whose tokens
 * are unknown, are messages; such a call belongs to the history if it repeats the history's messages.
 */
export class History {
  /** Index of the call that the history began with. */
  readonly firstCall: number;
  readonly entries: (Message | Choice)[];
  #tools: Tool[] | undefined;
  /** Undefined in a history that was read back: its rollout has ended and nothing extends it. */
  #last: RecordedCall | undefined;

  private constructor(firstCall: number, entries: (Message | Choice)[], tools: Tool[] | undefined) {
    this.firstCall = firstCall;
    this.entries = entries;
    this.#tools = tools;
  }

  /** The conversation that a call begins. */
  static begin(call: RecordedCall): History {
    const history = new History(call.index, [...call.messages, replyOf(call)], call.tools);
    history.#last = call;
    return history;
  }

  /** A conversation that was read back. It cannot be extended. */
  static restore(firstCall: number, { messages_and_choices, tools }: Conversation): History {
    return new History(firstCall, messages_and_choices, tools);
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
    return call.spoken ? this.#isRepeatedBy(call.messages) : this.#isPrefixOf(call, this.#last);
  }

  /** Whether the call's prompt starts with the last prompt and the tokens that were sampled after it. */
  #isPrefixOf({ messages, promptTokenIds: ids }: RecordedCall, last: RecordedCall): boolean {
    if (messages[this.entries.length - 1]?.role !== 'assistant') return false;
    const prompt = last.promptTokenIds;
    const sampled = last.choice.token_ids ?? [];
    if (ids.length < prompt.length + sampled.length) return false;
    // From the end: conversations of one agent begin alike and differ late.
    for (let at = sampled.length - 1; at >= 0; at--)
      if (ids[prompt.length + at] !== sampled[at]) return false;
    for (let at = prompt.length - 1; at >= 0; at--) if (ids[at] !== prompt[at]) return false;
    return true;
  }

  /** Tool arguments of replies are not compared: agents' libraries serialize them again. */
  #isRepeatedBy(messages: readonly Message[]): boolean {
    for (let at = this.entries.length - 1; at >= 0; at--) {
      const [entry, message] = [this.entries[at], messages[at]];
      if (!entry || !message || 'message' in entry || keyOf(entry) !== keyOf(message)) return false;
    }
    return true;
  }

  extend(call: RecordedCall): void {
    for (let at = this.entries.length; at < call.messages.length; at++) {
      const message = call.messages[at];
      if (message) this.entries.push(message);
    }
    this.entries.push(replyOf(call));
    this.#tools = call.tools;
    this.#last = call;
  }

  /** Freezes the history. Tools may be objects of the user: they are copied as they were sent. */
  seal(): void {
    this.#tools &&= JSON.parse(JSON.stringify(this.#tools));
    freezeAll(this.entries);
  }

  toBody(): Conversation {
    return { messages_and_choices: this.entries, ...(this.#tools ? { tools: this.#tools } : {}) };
  }
}

const replyOf = ({ spoken, choice }: RecordedCall): Message | Choice => spoken?.reply ?? choice;

function keyOf(message: Message): string {
  if (message.role !== 'assistant') return JSON.stringify(message);
  const calls = (message.tool_calls ?? []).map((call) => [call.id, call.function.name]);
  return JSON.stringify([message.role, message.content ?? '', calls]);
}

function freezeAll(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  // Lists of thousands of numbers hold nothing else to freeze.
  if (Array.isArray(value) && typeof value[0] === 'number') return;
  for (const part of Object.values(value)) freezeAll(part);
}
