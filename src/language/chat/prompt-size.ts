import { LanguageError } from '../error.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import type { Turn } from './conversation.ts';

/** Texts may be so many times longer than the context can hold, since a template or a request may cut them. */
const roomToCut = 4;

/** Refuses texts that no context has room for, before they are made tokens: that takes seconds for megabytes. */
export class PromptSize {
  readonly #tokenizer: Tokenizer;
  #longestToken: number | undefined;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** Throws where `characters` are too many for a context of so many tokens. */
  check(characters: number, contextLength: number): void {
    const most = roomToCut * contextLength * this.#bytesOfLongestToken();
    if (characters <= most) return;
    throw new LanguageError(
      'context_length_exceeded',
      `The prompt has ${characters} characters, and ${most} is the most that is read for a context of ${contextLength} tokens, reply included; shorten the messages.`,
    );
  }

  /** The same for messages and calls, of each of which a template writes a token and more. */
  checkTurns(turns: readonly Pick<Turn, 'toolCalls'>[], contextLength: number): void {
    const most = roomToCut * contextLength;
    const count = turns.reduce((sum, { toolCalls }) => sum + toolCalls.length, turns.length);
    if (count <= most) return;
    throw new LanguageError(
      'context_length_exceeded',
      `The prompt has ${count} messages and tool calls, and ${most} is the most that is read for a context of ${contextLength} tokens, reply included; send fewer messages.`,
    );
  }

  #bytesOfLongestToken(): number {
    if (this.#longestToken === undefined) {
      this.#longestToken = 1;
      for (let token = 0; token < this.#tokenizer.vocabularySize; token++)
        this.#longestToken = Math.max(this.#longestToken, this.#tokenizer.bytes(token).length);
    }
    return this.#longestToken;
  }
}

/** Characters of all texts in a value; a number, as the id of a token is, counts as one. */
export function charactersIn(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let characters = 0;
  for (const inner of Array.isArray(value) ? value : Object.values(value))
    characters += typeof inner === 'number' ? 1 : charactersIn(inner);
  return characters;
}
