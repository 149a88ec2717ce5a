import type { Choice, Message, Tool } from '../contract/index.ts';
import { append } from '../util/extremes.ts';
import { messageKey, type RecordedCall, reasoningOf, replyKey } from './recorded-call.ts';

/** A history in JSON. */
export interface HistoryBody {
  messages_and_choices: (Message | Choice)[];
  tools?: Tool[];
}

/**
 * How choices are sent: `whole`, as they were answered, which every service reads; or `compact`, for a service that stores
 * groups: with what a prompt adds to the prompt and the reply of the choice before, and without the texts of tokens, which
 * the message repeats.
 */
export type BodyForm = 'whole' | 'compact';

/**
 * One conversation of a trajectory: messages, which are context, and choices, which the policy sampled. A call extends
 * the history only if its prompt begins with exactly the last prompt and the tokens sampled after it. So the choices of
 * a history are one token sequence, in the order of sampling, and only the last choice holds its prompt. Replies of an
 * external model are stored as messages, because their tokens are unknown; its calls extend the history if they repeat
 * the history's messages.
 */
export class History {
  /** Index of the call that the history began with. */
  readonly firstCall: number;
  readonly #calls: RecordedCall[];
  #entries: (Message | Choice)[];
  #tools: Tool[] | undefined;
  /** Prompt of the last call. Undefined if the rollout has ended, so that no call extends the history. */
  #prompt: readonly number[] | undefined;

  private constructor(calls: RecordedCall[], entries: (Message | Choice)[], tools: Tool[] | undefined) {
    this.firstCall = calls[0]?.index ?? 0;
    this.#calls = calls;
    this.#entries = entries;
    this.#tools = tools;
  }

  /** A new conversation that starts with this call. */
  static begin(call: RecordedCall, prompt: readonly number[]): History {
    const history = new History([call], [...call.messages, replyOf(call)], call.tools);
    history.#prompt = prompt;
    return history;
  }

  /** A conversation read from disk, with its calls in order. It cannot be extended. */
  static restore(calls: RecordedCall[], { messages_and_choices, tools }: HistoryBody): History {
    const history = new History(calls, [...messages_and_choices], tools);
    for (const [at, call] of calls.entries()) history.#dropPrompt(calls[at - 1], call);
    return history;
  }

  /** In order. The reply of a call is the entry after its messages. */
  get calls(): readonly RecordedCall[] {
    return this.#calls;
  }

  get entries(): (Message | Choice)[] {
    return this.#entries;
  }

  /** The tools of the last call. */
  get tools(): Tool[] | undefined {
    return this.#tools;
  }

  get choices(): Choice[] {
    return this.#calls.flatMap(({ external, choice }) => (external ? [] : [choice]));
  }

  /** Whether the call continues this conversation. */
  isExtendedBy(call: RecordedCall, prompt: readonly number[]): boolean {
    if (!this.#prompt || call.messages.length < this.entries.length) return false;
    return call.external ? this.#isSentAgain(call.messages) : this.#isPrefixOf(call, prompt, this.#prompt);
  }

  /**
   * Whether the call has this conversation's messages, unedited replies and tools. If it still does not extend the
   * history, the chat template renders an earlier turn to other tokens than before.
   */
  isRepeatedBy({ messages, tools, external }: RecordedCall): boolean {
    if (!this.#prompt || external || !isSameTools(tools, this.#tools)) return false;
    return this.entries.every((entry, at) => {
      const message = messages[at];
      return message !== undefined && isUnedited(entry, message);
    });
  }

  /** Whether the call's prompt starts with the last prompt and the tokens that were sampled after it. */
  #isPrefixOf({ messages }: RecordedCall, ids: readonly number[], prompt: readonly number[]): boolean {
    if (messages[this.entries.length - 1]?.role !== 'assistant') return false;
    const sampled = this.#calls.at(-1)?.choice.token_ids ?? [];
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

  extend(call: RecordedCall, prompt: readonly number[]): void {
    this.#dropPrompt(this.#calls.at(-1), call);
    // Agent libraries make the same schemas anew for each call.
    if (isSameTools(call.tools, this.#tools)) call.tools = this.#tools;
    if (call.index > this.firstCall) call.askedForm = undefined;
    append(this.#entries, call.messages.slice(this.#entries.length));
    this.#entries.push(replyOf(call));
    this.#calls.push(call);
    this.#tools = call.tools;
    this.#prompt = prompt;
  }

  /** Replaces the choice of a call by one without its prompt, which the next choice has. */
  #dropPrompt(call: RecordedCall | undefined, next: RecordedCall): void {
    if (!call?.choice.prompt_token_ids || !next.choice.prompt_token_ids) return;
    const { prompt_token_ids: _, ...choice } = call.choice;
    call.choice = choice;
    this.#entries[call.messages.length] = choice;
  }

  /** Freezes the history. Tools may be the user's objects, so their JSON is copied. */
  seal(): void {
    this.#prompt = undefined;
    const given = this.#tools;
    this.#tools &&= JSON.parse(JSON.stringify(given));
    for (const call of this.#calls) if (call.tools === given) call.tools = this.#tools;
    freezeAll(this.entries);
  }

  /** Keeps the choices of the calls as they are now, and with `keepsTexts` the messages and tools. */
  release(keepsTexts: boolean): void {
    this.#prompt = undefined;
    this.#entries = keepsTexts ? [...this.#entries] : this.choices;
    if (!keepsTexts) this.#tools = undefined;
    for (const call of this.#calls)
      if (!keepsTexts) Object.assign(call, { messages: [], tools: undefined });
      else if (!call.external) this.#entries[call.messages.length] = call.choice;
  }

  /** The history as it is kept. */
  toRecord(): HistoryBody {
    return { messages_and_choices: this.#entries, ...(this.#tools ? { tools: this.#tools } : {}) };
  }

  /** The history as it is sent. Without prompts it has only one form. */
  toBody(form: BodyForm = 'whole'): HistoryBody {
    const record = this.toRecord();
    const prompt = this.#calls.at(-1)?.choice.prompt_token_ids;
    if (!prompt) return record;
    const isCompact = form === 'compact';
    const entries = [...record.messages_and_choices];
    /** Tokens up to the end of the last reply. */
    let known = 0;
    for (const { external, choice, messages, promptTokens } of this.#calls) {
      const from = isCompact ? known : 0;
      known = promptTokens + (choice.token_ids?.length ?? 0);
      if (external || (choice.prompt_token_ids && !isCompact)) continue;
      const { prompt_token_ids: _, credited_reward: credit, ...answered } = choice;
      if (isCompact) delete answered.token_texts;
      const ids = prompt.slice(from, promptTokens);
      entries[messages.length] = {
        ...answered,
        ...(from > 0 ? { added_prompt_token_ids: ids } : { prompt_token_ids: ids }),
        ...(credit === undefined ? {} : { credited_reward: credit }),
      };
    }
    return { ...record, messages_and_choices: entries };
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
  // A list of fractions takes three times the memory once it is frozen, or `value[0]` has met lists of several kinds: so
  // log-probabilities stay as they are.
  const isNumbers = Array.isArray(value) && typeof value.at(0) === 'number';
  if (isNumbers && !value.every(Number.isInteger)) return;
  Object.freeze(value);
  if (isNumbers) return;
  for (const part of Object.values(value)) freezeAll(part);
}
