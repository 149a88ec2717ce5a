import type { Choice, Message, Tool } from '../contract/index.ts';
import { append } from '../util/extremes.ts';
import { sumOf } from '../util/sums.ts';
import { hasPrompt, shareTexts, withPrompt } from './kept-choice.ts';
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
 * a history are one token sequence, in the order of sampling, and each choice after the first holds only what its prompt
 * adds. Replies of an external model are stored as messages, because their tokens are unknown; its calls extend the
 * history if they repeat the history's messages.
 */
export class History {
  /** Index of the call that the history began with. */
  readonly firstCall: number;
  readonly #calls: RecordedCall[];
  #entries: (Message | Choice)[];
  #tools: Tool[] | undefined;
  /** The tokens that each prompt adds, and those of each reply. Undefined once the rollout has ended: no call extends it. */
  #tokens: (readonly number[])[] | undefined;

  private constructor(calls: RecordedCall[], entries: (Message | Choice)[], tools: Tool[] | undefined) {
    this.firstCall = calls[0]?.index ?? 0;
    this.#calls = calls;
    this.#entries = entries;
    this.#tools = tools;
  }

  /** A new conversation that starts with this call. */
  static begin(call: RecordedCall, prompt: readonly number[]): History {
    call.choice = shareTexts(call.choice, call.model);
    const history = new History([call], [...call.messages, replyOf(call)], call.tools);
    history.#tokens = [call.choice.prompt_token_ids ?? prompt, call.choice.token_ids ?? []];
    return history;
  }

  /** A conversation read from disk, with its calls in order. It cannot be extended. */
  static restore(calls: RecordedCall[], { messages_and_choices, tools }: HistoryBody): History {
    const history = new History(calls, [...messages_and_choices], tools);
    const prompt = calls.at(-1)?.choice.prompt_token_ids;
    for (const { call, choice } of history.#prompted(prompt, 'compact')) {
      call.choice = shareTexts(choice, call.model);
      history.#entries[call.messages.length] = call.choice;
    }
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
    if (!this.#tokens || call.messages.length < this.entries.length) return false;
    return call.external ? this.#isSentAgain(call.messages) : this.#isPrefixOf(call, prompt, this.#tokens);
  }

  /**
   * Whether the call has this conversation's messages, unedited replies and tools. If it still does not extend the
   * history, the chat template renders an earlier turn to other tokens than before.
   */
  isRepeatedBy({ messages, tools, external }: RecordedCall): boolean {
    if (!this.#tokens || external || !isSameTools(tools, this.#tools)) return false;
    return this.entries.every((entry, at) => {
      const message = messages[at];
      return message !== undefined && isUnedited(entry, message);
    });
  }

  /** Whether the call's prompt starts with the tokens of the history. */
  #isPrefixOf(
    { messages }: RecordedCall,
    ids: readonly number[],
    tokens: readonly (readonly number[])[],
  ): boolean {
    if (messages[this.entries.length - 1]?.role !== 'assistant') return false;
    let at = lengthOf(tokens);
    if (ids.length < at) return false;
    // Compare from the end: conversations of one agent share their beginning and differ late.
    for (const piece of tokens.toReversed())
      for (let last = piece.length - 1; last >= 0; last--) if (ids[--at] !== piece[last]) return false;
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
    const tokens = this.#tokens ?? [];
    const added = prompt.slice(lengthOf(tokens));
    const isAdded = hasPrompt(call.choice) && hasPrompt(this.#calls.at(-1)?.choice);
    const choice = isAdded ? withPrompt(call.choice, { added_prompt_token_ids: added }) : call.choice;
    call.choice = shareTexts(choice, call.model);
    // Agent libraries make the same schemas anew for each call.
    if (isSameTools(call.tools, this.#tools)) call.tools = this.#tools;
    if (call.index > this.firstCall) call.askedForm = undefined;
    append(this.#entries, call.messages.slice(this.#entries.length));
    this.#entries.push(replyOf(call));
    this.#calls.push(call);
    this.#tools = call.tools;
    this.#tokens = [...tokens, added, call.choice.token_ids ?? []];
  }

  /** Freezes the history. Tools may be the user's objects, so their JSON is copied. */
  seal(): void {
    this.#tokens = undefined;
    const given = this.#tools;
    this.#tools &&= JSON.parse(JSON.stringify(given));
    for (const call of this.#calls) if (call.tools === given) call.tools = this.#tools;
    freezeAll(this.entries);
  }

  /** Keeps the choices of the calls as they are now, and with `keepsTexts` the messages and tools. */
  release(keepsTexts: boolean): void {
    this.#tokens = undefined;
    this.#entries = keepsTexts ? [...this.#entries] : this.choices;
    if (!keepsTexts) this.#tools = undefined;
    for (const call of this.#calls)
      if (!keepsTexts) Object.assign(call, { messages: [], tools: undefined });
      else if (!call.external) this.#entries[call.messages.length] = call.choice;
  }

  /** Token ids of the prompt of a call; undefined if they are not known. */
  promptIds(call: RecordedCall): number[] | undefined {
    return this.#lastPrompt()?.slice(0, call.promptTokens);
  }

  /** The history as it is stored. Only its last choice has a prompt, because that begins with all earlier prompts. */
  toRecord(): HistoryBody {
    const entries = [...this.#entries];
    const prompt = this.#lastPrompt();
    for (const { call, choice } of this.#prompted(prompt, 'whole'))
      entries[call.messages.length] = call === this.#calls.at(-1) ? choice : withPrompt(choice, {});
    return { messages_and_choices: entries, ...(this.#tools ? { tools: this.#tools } : {}) };
  }

  /** The history as it is sent. Without prompts it has only one form. */
  toBody(form: BodyForm = 'whole'): HistoryBody {
    const entries = [...this.#entries];
    for (const { call, choice } of this.#prompted(this.#lastPrompt(), form)) {
      if (form === 'compact') delete choice.token_texts;
      entries[call.messages.length] = choice;
    }
    return { messages_and_choices: entries, ...(this.#tools ? { tools: this.#tools } : {}) };
  }

  /** The prompt of the last call, if its choice has it. */
  #lastPrompt(): number[] | undefined {
    if (!hasPrompt(this.#calls.at(-1)?.choice)) return undefined;
    const pieces: (readonly number[])[] = [];
    for (const { choice } of this.#calls.toReversed()) {
      if (pieces.length > 0) pieces.push(choice.token_ids ?? []);
      pieces.push(choice.prompt_token_ids ?? choice.added_prompt_token_ids ?? []);
      if (choice.prompt_token_ids) break;
    }
    return pieces.reverse().flat();
  }

  /** Copies of the choices with their prompts, of which the last one is given. */
  *#prompted(prompt: readonly number[] | null | undefined, form: BodyForm) {
    if (!prompt) return;
    /** Tokens up to the end of the last reply. */
    let known = 0;
    for (const call of this.#calls) {
      const { external, choice, promptTokens } = call;
      const from = form === 'compact' ? known : 0;
      known = promptTokens + (choice.token_ids?.length ?? 0);
      if (external) continue;
      const ids = prompt.slice(from, promptTokens);
      const own = from > 0 ? { added_prompt_token_ids: ids } : { prompt_token_ids: ids };
      yield { call, choice: withPrompt(choice, own) };
    }
  }
}

const replyOf = ({ external, choice }: RecordedCall): Message | Choice => external?.reply ?? choice;

const lengthOf = (lists: readonly (readonly number[])[]): number => sumOf(lists, ({ length }) => length);

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
