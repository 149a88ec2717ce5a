import { LanguageError } from '../error.ts';
import type { LimitedReasoning } from './constraint.ts';
import { type ConstraintState, forcedTokensDue } from './constraint-state.ts';
import { type GrammarSource, literal, rule } from './expression.ts';
import { freeTextRules } from './free-text.ts';
import type { ShouldPause } from './legal-search.ts';
import type { TextState } from './text-state.ts';
import type { TokenSet } from './token-set.ts';

/** Any text up to and including the first `close`. */
export function reasoningSource({ close }: LimitedReasoning): GrammarSource {
  const rules = freeTextRules(
    { triggers: [{ text: close, follow: literal('') }], excluded: [] },
    'reasoning',
  );
  return { start: rule('reasoning'), rules };
}

/** The tokens of reasoning. */
interface ReasoningTokens {
  before: readonly number[];
  close: readonly number[];
  after: readonly number[];
  limit: number;
  /** The state of its text. */
  start: () => TextState;
}

/** A reply that begins with reasoning, which ends with its tag or at the limit. */
export class ReasoningState implements ConstraintState {
  readonly #reasoning: ReasoningTokens;
  readonly #rest: ConstraintState;
  /** Null before and after the reasoning. */
  #text: TextState | null = null;
  #phase: 'before' | 'inside' | 'closed' | 'after' = 'before';
  /** Number of tokens so far. */
  #length = 0;

  constructor(reasoning: ReasoningTokens, rest: ConstraintState) {
    this.#reasoning = reasoning;
    this.#rest = rest;
  }

  get ended(): boolean {
    return this.#rest.ended;
  }

  get freeText(): boolean {
    return this.#phase === 'after' ? this.#rest.freeText : this.#text?.freeText === true;
  }

  takeForced(): number[] {
    const { before, close, after, limit, start } = this.#reasoning;
    const taken: number[] = [];
    if (this.#phase === 'before') {
      taken.push(...before);
      this.#text = start();
      this.#phase = 'inside';
    }
    if (this.#phase === 'inside' && this.#length >= limit) {
      taken.push(...close);
      this.#phase = 'closed';
    }
    if (this.#phase === 'closed') {
      taken.push(...after);
      this.#text = null;
      this.#phase = 'after';
    }
    return this.#phase === 'after' ? [...taken, ...this.#rest.takeForced()] : taken;
  }

  legal(): TokenSet {
    return this.#phase === 'after' ? this.#rest.legal() : this.#decision().legal;
  }

  prepare(shouldPause: ShouldPause): boolean {
    return this.#phase === 'after' ? this.#rest.prepare(shouldPause) : this.#decision().prepare(shouldPause);
  }

  accept(token: number): void {
    if (this.#phase === 'after') {
      this.#rest.accept(token);
      return;
    }
    const text = this.#decision();
    if (!text.legal.has(token))
      throw new LanguageError(
        'illegal_token',
        `Token ${token} is not a text token. Reasoning contains only text.`,
      );
    this.#text = text.after(token);
    this.#length++;
    if (!this.#text.hasLegal) this.#phase = 'closed';
  }

  clone(): ReasoningState {
    const copy = new ReasoningState(this.#reasoning, this.#rest.clone());
    copy.#text = this.#text;
    copy.#phase = this.#phase;
    copy.#length = this.#length;
    return copy;
  }

  #decision(): TextState {
    if (this.#phase === 'inside' && this.#text && this.#length < this.#reasoning.limit) return this.#text;
    throw forcedTokensDue();
  }
}

/** Refuses reasoning that could not end. */
export function checkReasoning({ limit, close }: LimitedReasoning): void {
  const refuse = (message: string): never => {
    throw new LanguageError('constraint_invalid', `Constraint: reasoning ${message}.`);
  };
  if (!Number.isSafeInteger(limit) || limit < 0)
    refuse(`has limit ${limit}; it must be a whole number of at least 0`);
  if (close === '') refuse('has an empty close, so it would never end');
}
