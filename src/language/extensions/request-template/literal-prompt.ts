import type { Tool } from '../../../contract/index.ts';
import type { Conversation } from '../../chat/conversation.ts';
import { cutAtMarks, markOf, type PromptPart, partsUpTo } from '../../chat/prompt-parts.ts';
import { type Slot, type TemplateMessage, templateMessages } from '../../chat/template-messages.ts';
import { invalidField, LanguageError } from '../../error.ts';
import { PlainText } from './plain-text.ts';
import type { TemplateResult } from './template-task.ts';

/** What a request gives a template beside its conversation. */
export interface TemplateValues {
  /** A template to use instead of the model's own. */
  source?: string | undefined;
  documents?: readonly Record<string, unknown>[] | undefined;
  variables?: Readonly<Record<string, unknown>> | undefined;
}

interface Ending {
  continueFinalMessage: boolean;
}

/**
 * A conversation for a template that may look at its texts. They stand in the template as they are, made harmless;
 * sampled ids alone, and the place after an open last message, have marks.
 */
export class LiteralPrompt {
  readonly slots: Slot[] = [];
  readonly #turns: Conversation['turns'];
  readonly #tools: readonly Tool[] | undefined;
  readonly #given: TemplateValues;
  readonly #special: ReadonlyMap<string, number>;
  readonly #plain: PlainText;
  #finalSlot = -1;

  constructor(
    { turns, tools }: Pick<Conversation, 'turns' | 'tools'>,
    given: TemplateValues,
    special: ReadonlyMap<string, number>,
  ) {
    this.#turns = turns;
    this.#tools = tools && tools.length > 0 ? tools : undefined;
    this.#given = given;
    this.#special = special;
    this.#plain = new PlainText(special, JSON.stringify([turns, tools, given]));
  }

  /** The variables of the template. */
  values({ continueFinalMessage }: Ending): Record<string, unknown> {
    const { documents, variables } = this.#given;
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
      ...(this.#tools ? { tools: plain.value(this.#tools) } : {}),
      ...(documents && documents.length > 0 ? { documents: plain.value(documents) } : {}),
    };
  }

  /** What a template of the caller's wrote; what went wrong in it is for its author. */
  textOf(result: TemplateResult): string {
    if (result.type === 'text') return result.text;
    throw invalidField(['chat_template'], `could not be rendered: ${result.reason}`, this.#given.source);
  }

  cut(rendered: string, { continueFinalMessage }: Ending): PromptPart[] {
    const parts = cutAtMarks(rendered, this.#special, this.#plain.marks).map((part): PromptPart => {
      if (part.type !== 'text') return part;
      if (this.#plain.hasBrokenMark(part.text))
        throw notWhole('takes apart a message that came with token_ids, or the message to continue');
      return { type: 'text', text: this.#plain.restore(part.text) };
    });
    if (!continueFinalMessage) return parts;
    const open = partsUpTo(parts, this.#finalSlot);
    if (!open) throw notWhole('does not write the message to continue');
    return open;
  }

  #mark(slot: Slot): string {
    this.slots.push(slot);
    return markOf(this.#plain.marks, this.slots.length - 1);
  }
}

const notWhole = (what: string) =>
  new LanguageError(
    'not_in_chat_template',
    `The chat template ${what}; it has to write such content once, as it is.`,
  );
