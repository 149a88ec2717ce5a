import type { Choice, Message, Tool } from '../contract/index.ts';
import type { RecordedCall } from './recorded-call.ts';

/** What is written of a history. */
export interface Conversation {
  messages_and_choices: (Message | Choice)[];
  tools?: Tool[];
}

/**
 * One conversation of a trajectory: messages, which are context, and choices, which are what the policy sampled.
 * A call belongs to it only if the call's prompt begins with exactly the tokens that the history ends in, so the
 * choices of a history are one sequence of tokens and each was sampled after the ones before it.
 */
export class History {
  /** Index of the call the history began with. */
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
    const history = new History(call.index, [...call.messages, call.choice], call.tools);
    history.#last = call;
    return history;
  }

  /** A conversation as it was written, which nothing is added to. */
  static restore(firstCall: number, { messages_and_choices, tools }: Conversation): History {
    return new History(firstCall, messages_and_choices, tools);
  }

  /** Those of its last call. */
  get tools(): Tool[] | undefined {
    return this.#tools;
  }

  get choices(): Choice[] {
    return this.entries.filter((entry): entry is Choice => 'message' in entry);
  }

  /** Whether the call's prompt starts with the last prompt and everything that was sampled after it. */
  isExtendedBy(call: RecordedCall): boolean {
    if (!this.#last || call.messages.length < this.entries.length) return false;
    if (call.messages[this.entries.length - 1]?.role !== 'assistant') return false;
    const prompt = this.#last.promptTokenIds;
    const sampled = this.#last.choice.token_ids ?? [];
    const ids = call.promptTokenIds;
    if (ids.length < prompt.length + sampled.length) return false;
    // From the end: conversations of one agent begin alike and differ late.
    for (let at = sampled.length - 1; at >= 0; at--)
      if (ids[prompt.length + at] !== sampled[at]) return false;
    for (let at = prompt.length - 1; at >= 0; at--) if (ids[at] !== prompt[at]) return false;
    return true;
  }

  extend(call: RecordedCall): void {
    for (let at = this.entries.length; at < call.messages.length; at++) {
      const message = call.messages[at];
      if (message) this.entries.push(message);
    }
    this.entries.push(call.choice);
    this.#tools = call.tools;
    this.#last = call;
  }

  /** Keeps it from being changed. Tools may be its user's own objects: they are copied, as they are sent. */
  seal(): void {
    this.#tools &&= JSON.parse(JSON.stringify(this.#tools));
    freezeAll(this.entries);
  }

  toBody(): Conversation {
    return { messages_and_choices: this.entries, ...(this.#tools ? { tools: this.#tools } : {}) };
  }
}

function freezeAll(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  // Of a list of numbers, thousands of them, there is nothing more to freeze.
  if (Array.isArray(value) && typeof value[0] === 'number') return;
  for (const part of Object.values(value)) freezeAll(part);
}
