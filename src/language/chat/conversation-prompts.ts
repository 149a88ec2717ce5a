import { LRUCache } from 'lru-cache';
import { type ExactJson, exactJsonOf } from '../../util/exact-json.ts';
import { append } from '../../util/extremes.ts';
import { getOrInsert } from '../../util/get-or-insert.ts';
import { LanguageError } from '../error.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import { idsInPrompt } from './call-ids.ts';
import { writtenCalls } from './call-text.ts';
import { type CodedPart, CodedTemplate, type PromptPart, type Slot } from './coded-template.ts';
import type { Turn, TurnToolCall } from './conversation.ts';
import {
  type CalledForm,
  calledForm,
  findReplies,
  headerOf,
  leavesOutRole,
  partsThrough,
  resultHeader,
} from './template-replies.ts';

export interface PromptOptions {
  addGenerationPrompt: boolean;
  continueFinalMessage: boolean;
  /** Variables of the template besides the messages and tools. */
  values: Readonly<Record<string, unknown>>;
}

/** A rendered conversation. Its slots are the sampled ids that stay in it. */
export interface ConversationPrompt {
  parts: PromptPart[];
  slots: Slot[];
  /** For each turn with sampled ids, whether they are in the prompt. */
  kept: boolean[];
}

/**
 * Renders conversations with a model's template, which sees their texts. The template gets a sampled reply as
 * content. Where it writes all of it, the sampled ids take the place of what it wrote; where it leaves something out, as
 * Qwen3 leaves out earlier reasoning, the prompt is what the template says. Calls without sampled ids that a template
 * leaves out, as LFM2's first one does, are written into the content, as the model would have. What else it would leave
 * out is refused: calls, where nobody knows how the model writes them, and messages of a role.
 */
export class ConversationPrompts {
  readonly #tokenizer: Tokenizer;
  readonly #format: ChatFormat;
  readonly #template: CodedTemplate;
  readonly #toolTemplate: CodedTemplate;
  readonly #ends: ReadonlySet<number>;
  /** What the templates write before replies. */
  readonly #headers: readonly (readonly CodedPart[])[];
  /** Whether the templates leave out a role, with and without tools. */
  readonly #leftOut = new LRUCache<string, boolean>({ max: 64 });
  /** How the templates take calls, with and without tools and content; null if they leave them out. */
  readonly #calledForms = new Map<string, CalledForm | null>();

  constructor(tokenizer: Tokenizer, format: ChatFormat) {
    const { template, toolTemplate, variables } = format;
    const texts = Object.values(variables);
    this.#tokenizer = tokenizer;
    this.#format = format;
    this.#template = new CodedTemplate(template, tokenizer.added, texts);
    this.#toolTemplate =
      toolTemplate === null ? this.#template : new CodedTemplate(toolTemplate, tokenizer.added, texts);
    this.#ends = new Set([format.endToken, ...format.otherEndTokens]);
    const header = headerOf(this.#template, variables);
    const ofResults = resultHeader(header, this.#ends, this.#toolTemplate, variables, true);
    this.#headers = ofResults ? [header, ofResults] : [header];
  }

  render(turns: readonly Turn[], tools: ExactJson, options: PromptOptions): ConversationPrompt {
    const { addGenerationPrompt, continueFinalMessage, values } = options;
    const template = tools ? this.#toolTemplate : this.#template;
    this.#checkRoles(turns, template, tools);
    const called = this.#calledIn(turns, template, tools);
    const idOf = idsInPrompt(turns, this.#format, (tokens) => this.#textOf(tokens));
    const parts = template.render(this.#format.variables, {
      documents: null,
      ...values,
      messages: turns.map((turn) =>
        this.#message(turn, called.get(turn), { form: this.#formOf(turn, template, tools), idOf }),
      ),
      tools,
      add_generation_prompt: addGenerationPrompt,
    });
    const last = turns.at(-1);
    const content = last?.content.trim() ?? '';
    const isOpenReply = continueFinalMessage && last?.role === 'assistant';
    const hasSampled = called.size > 0 || turns.some(({ tokenIds }) => tokenIds);
    // An empty reply to continue ends after its header.
    const prompt =
      hasSampled || (isOpenReply && content === '')
        ? this.#withSampled(parts, turns, { isOpenReply, called })
        : { parts, slots: [], kept: [] };
    if (!continueFinalMessage || (isOpenReply && (hasSampled || content === ''))) return prompt;
    const open =
      content === '' ? this.#withoutEnd(prompt.parts) : partsThrough(prompt.parts, last?.content ?? '');
    return { ...prompt, parts: open };
  }

  /** The parts before the last token that ends a message. */
  #withoutEnd(parts: readonly PromptPart[]): PromptPart[] {
    const end = parts.findLastIndex((part) => part.type === 'special' && this.#ends.has(part.token));
    if (end >= 0) return parts.slice(0, end);
    throw new LanguageError(
      'not_in_chat_template',
      "The model's chat template writes no end after the message to continue.",
    );
  }

  /** How a template takes the calls of a message; null if it leaves them out, or if there are none. */
  #formOf({ toolCalls, content }: Turn, template: CodedTemplate, tools: ExactJson): CalledForm | null {
    if (toolCalls.length === 0) return null;
    const text = content === '' ? '' : 'text';
    return getOrInsert(this.#calledForms, `${tools !== null} ${text}`, () =>
      calledForm(text, template, this.#format.variables, tools !== null),
    );
  }

  /** Refuses messages that the model would not see. */
  #checkRoles(turns: readonly Turn[], template: CodedTemplate, tools: ExactJson): void {
    const { variables } = this.#format;
    for (const [index, { role, content }] of turns.entries()) {
      if (role === 'user' || role === 'assistant' || content.trim() === '') continue;
      const key = `${tools !== null} ${role}`;
      const isLeftOut = this.#leftOut.get(key) ?? leavesOutRole(role, template, variables, tools !== null);
      this.#leftOut.set(key, isLeftOut);
      if (isLeftOut) throw leftOut(`messages of the role ${role}`, index);
    }
  }

  /**
   * The turns whose calls the template cannot write, and how the model writes them. A template that writes calls in Python
   * takes only arguments that are objects.
   */
  #calledIn(turns: readonly Turn[], template: CodedTemplate, tools: ExactJson): Map<Turn, CodedPart[]> {
    const found = new Map<Turn, CodedPart[]>();
    const { calls } = this.#format;
    const isOdd = ({ arguments: text }: TurnToolCall) =>
      calls !== null && calls.arguments !== 'json' && !(argumentsOf(text) instanceof Map);
    for (const [index, turn] of turns.entries()) {
      const { content, toolCalls, tokenIds } = turn;
      if (tokenIds || toolCalls.length === 0) continue;
      if (this.#formOf(turn, template, tools) && !toolCalls.some(isOdd)) continue;
      if (!calls) throw leftOut('tool calls', index);
      const written = [content, ...writtenCalls(calls, toolCalls, { afterText: content !== '' })];
      found.set(
        turn,
        written
          .filter((part) => part !== '')
          .map((part) =>
            typeof part === 'number' ? { type: 'special', token: part } : { type: 'text', text: part },
          ),
      );
    }
    return found;
  }

  /** A message as the template expects it. Arguments of calls are values, where it does not need JSON. */
  #message(
    turn: Turn,
    called: readonly CodedPart[] | undefined,
    { form, idOf }: { form: CalledForm | null; idOf: (id: string) => string },
  ): Record<string, unknown> {
    const { role, toolCalls, reasoning, toolCallId, name, tokenIds } = turn;
    if (tokenIds) return { role, content: this.#textOf(tokenIds) };
    const content = called ? this.#textsOf(called).join('') : turn.content;
    const calls = (called ? [] : toolCalls).map((call) => ({
      id: idOf(call.id),
      type: 'function',
      function: {
        name: call.name,
        arguments: form?.arguments === 'json' ? call.arguments : argumentsOf(call.arguments),
      },
    }));
    return {
      role,
      content: calls.length > 0 && content === '' ? form?.empty : content,
      // The names that templates have for it: LFM2.5 calls it `thinking`.
      ...(reasoning === undefined ? {} : { reasoning, reasoning_content: reasoning, thinking: reasoning }),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
      ...(toolCallId === undefined ? {} : { tool_call_id: idOf(toolCallId) }),
      ...(name === undefined ? {} : { name }),
    };
  }

  #withSampled(
    rendered: readonly CodedPart[],
    turns: readonly Turn[],
    { isOpenReply, called }: { isOpenReply: boolean; called: ReadonlyMap<Turn, CodedPart[]> },
  ): ConversationPrompt {
    const { parts, replies } = findReplies(rendered, this.#headers, this.#ends);
    const assistants = turns.filter(({ role }) => role === 'assistant');
    if (replies.length !== assistants.length)
      throw new LanguageError(
        'not_in_chat_template',
        `The model's chat template writes ${replies.length} assistant messages for ${assistants.length}; each must appear in the prompt once.`,
      );
    const result: ConversationPrompt = { parts: [], slots: [], kept: [] };
    let at = 0;
    for (const [index, turn] of assistants.entries()) {
      const reply = replies[index];
      const isOpen = isOpenReply && index === assistants.length - 1;
      const calls = called.get(turn);
      if (!reply || (!turn.tokenIds && !calls && !isOpen)) continue;
      for (; at < reply.start; at++) result.parts.push(parts[at]!);
      const text = parts.slice(reply.start, reply.end);
      const given = turn.tokenIds ? this.#textOf(turn.tokenIds) : calls && this.#textsOf(calls).join('');
      const kept = given === undefined ? openOf(turn, text) : this.#before(text, given);
      if (turn.tokenIds) result.kept.push(kept !== null);
      append(result.parts, kept ?? text);
      if (kept && calls) append(result.parts, calls);
      if (kept && turn.tokenIds) {
        result.parts.push({ type: 'slot', index: result.slots.length });
        result.slots.push({ type: 'tokens', tokens: turn.tokenIds });
      }
      at = reply.end;
      if (isOpen) return result;
    }
    for (; at < parts.length; at++) result.parts.push(parts[at]!);
    return result;
  }

  /**
   * What the template wrote before a reply, such as empty reasoning; null if it did not write all of the reply. White
   * space may differ: the white space of sampled ids counts.
   */
  #before(written: readonly CodedPart[], reply: string): CodedPart[] | null {
    const texts = this.#textsOf(written);
    const whole = texts.join('');
    if (whole.replace(/\s+/g, '') === reply.replace(/\s+/g, '')) return [];
    if (!whole.endsWith(reply)) return null;
    let left = whole.length - reply.length;
    const before: CodedPart[] = [];
    for (const [index, part] of written.entries()) {
      const { length } = texts[index] ?? '';
      if (left < length && part.type === 'special' && left > 0) return null;
      if (left <= 0) break;
      before.push(part.type === 'text' ? { type: 'text', text: part.text.slice(0, left) } : part);
      left -= length;
    }
    return before;
  }

  #textsOf(parts: readonly CodedPart[]): string[] {
    return parts.map((part) => (part.type === 'text' ? part.text : this.#tokenizer.text(part.token)));
  }

  /** The text of a sampled reply without its end token; special tokens are written as text. */
  #textOf(tokenIds: readonly number[]): string {
    const tokens = this.#ends.has(tokenIds.at(-1) ?? -1) ? tokenIds.slice(0, -1) : tokenIds;
    const special = new Set(this.#tokenizer.special.values());
    return Buffer.concat(
      tokens.map((token) =>
        special.has(token) ? Buffer.from(this.#tokenizer.text(token)) : this.#tokenizer.bytes(token),
      ),
    ).toString('utf8');
  }
}

const leftOut = (what: string, index: number) =>
  new LanguageError(
    'not_in_chat_template',
    `The model's chat template leaves out ${what}, so the model would not see those of message ${index}. Serve it with a template that shows them (--chat-template hermes).`,
  );

/** The part of a reply that is continued. An empty reply has none: a template may have written empty reasoning there. */
const openOf = ({ content, reasoning }: Turn, written: CodedPart[]): CodedPart[] =>
  content.trim() === '' && !reasoning ? [] : written;

/** The value of a call's arguments; arguments that are no JSON object stay as they are. */
function argumentsOf(text: string): unknown {
  const value = exactJsonOf(text);
  return value instanceof Map ? value : text;
}
