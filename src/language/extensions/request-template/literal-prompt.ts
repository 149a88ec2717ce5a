import type { Tool } from '../../../contract/index.ts';
import { exactText, JsonNumber, parseExactJson } from '../../../util/exact-json.ts';
import { escapeForPattern } from '../../../util/pattern.ts';
import type { PromptPart, Slot } from '../../chat/coded-template.ts';
import type { Conversation } from '../../chat/conversation.ts';
import { LanguageError } from '../../error.ts';
import {
  cutAtMarks,
  type Marks,
  markOf,
  partsUpTo,
  type TemplateMessage,
  templateMessages,
} from './marked-messages.ts';

/** What a request passes to a template besides its conversation. */
export interface TemplateValues {
  /** A template to use instead of the model's own. Default: the model's. */
  source?: string | undefined;
  documents?: readonly Record<string, unknown>[] | undefined;
  variables?: Readonly<Record<string, unknown>> | undefined;
}

interface Ending {
  continueFinalMessage: boolean;
}

/**
 * A conversation for a template of the caller. The texts themselves go through the template, protected by
 * `PlainText`; only sampled ids and the end of an open last message are marks.
 */
export class LiteralPrompt {
  readonly slots: Slot[] = [];
  readonly #turns: Conversation['turns'];
  readonly #tools: readonly Tool[] | undefined;
  readonly #values: Omit<TemplateValues, 'source'>;
  readonly #special: ReadonlyMap<string, number>;
  readonly #plain: PlainText;
  #finalSlot = -1;

  constructor(
    { turns, tools }: Pick<Conversation, 'turns' | 'tools'>,
    values: Omit<TemplateValues, 'source'>,
    special: ReadonlyMap<string, number>,
  ) {
    this.#turns = turns;
    this.#tools = tools && tools.length > 0 ? tools : undefined;
    this.#values = values;
    this.#special = special;
    this.#plain = new PlainText(special, exactText([turns, tools ?? null, values]));
  }

  values({ continueFinalMessage }: Ending): Record<string, unknown> {
    const { documents, variables } = this.#values;
    const plain = this.#plain;
    const messages: TemplateMessage[] = templateMessages(this.#turns, {
      text: (text) => plain.text(text),
      content: ({ content, tokenIds }, isLast) => {
        const shown = tokenIds ? this.#mark({ type: 'tokens', tokens: tokenIds }) : plain.text(content);
        if (!isLast || !continueFinalMessage) return shown;
        this.#finalSlot = this.slots.length;
        return shown + this.#mark({ type: 'text', text: '' });
      },
    });
    return {
      ...Object.fromEntries(
        Object.entries(variables ?? {}).map(([name, value]) => [name, plain.value(value)]),
      ),
      messages,
      ...(this.#tools ? { tools: plain.value(parseExactJson(exactText(this.#tools))) } : {}),
      ...(documents && documents.length > 0 ? { documents: plain.value(documents) } : {}),
    };
  }

  cut(rendered: string, { continueFinalMessage }: Ending): PromptPart[] {
    const parts = cutAtMarks(rendered, this.#special, this.#plain.marks).map((part): PromptPart => {
      if (part.type !== 'text') return part;
      if (this.#plain.hasBrokenMark(part.text))
        throw incompleteError('takes apart a message with token_ids, or the message to continue');
      return { type: 'text', text: this.#plain.restore(part.text) };
    });
    if (!continueFinalMessage) return parts;
    const open = partsUpTo(parts, this.#finalSlot);
    if (!open) throw incompleteError('does not write the message to continue');
    return open;
  }

  #mark(slot: Slot): string {
    this.slots.push(slot);
    return markOf(this.#plain.marks, this.slots.length - 1);
  }
}

const incompleteError = (what: string) =>
  new LanguageError(
    'not_in_chat_template',
    `The chat template ${what}; it must write this content once and unchanged.`,
  );

/** Unicode's block of 32 noncharacters, which are for internal use and do not occur in exchanged text. */
const noncharacters = Array.from({ length: 32 }, (_, index) => String.fromCharCode(0xfdd0 + index));

/** A character as `tojson(ensure_ascii=true)` writes it. */
const escapeOf = (character: string) => `\\u${character.charCodeAt(0).toString(16)}`;

/**
 * Keeps the texts of a caller from forging special tokens in a template that sees them. Where a special token could
 * begin or end in a text, a noncharacter breaks it up; `restore` removes it after rendering.
 */
class PlainText {
  readonly marks: Marks;
  readonly #guard: string;
  readonly #beginnings: RegExp;
  readonly #endings: RegExp;

  /** `everything` is JSON of all that the template sees, so that none of it contains the chosen noncharacters. */
  constructor(special: ReadonlyMap<string, number>, everything: string) {
    const taken = new Set<string>();
    for (const [character] of everything.matchAll(/[\ufdd0-\ufdef]|\\ufd[de][0-9a-f]/g)) taken.add(character);
    const [open, close, guard] = noncharacters.filter(
      (character) => !taken.has(character) && !taken.has(escapeOf(character)),
    );
    if (open === undefined || close === undefined || guard === undefined)
      throw new LanguageError(
        'too_many_noncharacters',
        'The request uses too many of the noncharacters U+FDD0 to U+FDEF; the template needs three of them to be unused.',
      );
    this.marks = { open, close };
    this.#guard = guard;
    const beginnings = new Set<string>();
    const endings = new Set<string>();
    for (const text of special.keys()) {
      const second = text.slice(1, 2);
      beginnings.add(`${escapeForPattern(text.slice(0, 1))}(?=${escapeForPattern(second)})`);
      for (let start = 1; start < text.length; start++) endings.add(escapeForPattern(text.slice(start)));
    }
    this.#beginnings = new RegExp([...beginnings].join('|'), 'g');
    this.#endings = new RegExp(`^(?:${[...endings].join('|')})`);
  }

  text(text: string): string {
    const broken = text.replace(this.#beginnings, `$&${this.#guard}`);
    return this.#endings.test(text) ? this.#guard + broken : broken;
  }

  /** Protects every string of a JSON value, including keys. */
  value(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value);
    if (Array.isArray(value)) return value.map((item) => this.value(item));
    if (value instanceof Map)
      return new Map([...value].map(([key, item]) => [this.text(key), this.value(item)]));
    if (typeof value !== 'object' || value === null || value instanceof JsonNumber) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [this.text(key), this.value(item)]));
  }

  restore(text: string): string {
    return text.replaceAll(this.#guard, '').replaceAll(escapeOf(this.#guard), '');
  }

  /** Whether a text contains a piece of a mark, because a template took the mark apart. */
  hasBrokenMark(text: string): boolean {
    return [this.marks.open, this.marks.close].some(
      (mark) => text.includes(mark) || text.includes(escapeOf(mark)),
    );
  }
}
