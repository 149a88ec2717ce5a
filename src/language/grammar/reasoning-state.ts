import { LanguageError } from '../error.ts';
import type { Constraint, WrittenReasoning } from './constraint.ts';
import type { ConstraintState } from './constraint-state.ts';
import type { ShouldPause } from './legal-search.ts';
import type { TokenSet } from './token-set.ts';

interface Reasoning {
  open: number;
  close: number;
  limit: number;
  /** Legal tokens while more text may follow: every text token and `close`. */
  legal: TokenSet;
}

/** A reply that begins with its reasoning: any text, which may end anywhere and must end at the limit. */
export class ReasoningState implements ConstraintState {
  readonly #reasoning: Reasoning;
  readonly #rest: ConstraintState;
  #phase: 'before' | 'inside' | 'after' = 'before';
  /** Number of text tokens so far. */
  #length = 0;

  constructor(reasoning: Reasoning, rest: ConstraintState) {
    this.#reasoning = reasoning;
    this.#rest = rest;
  }

  get ended(): boolean {
    return this.#rest.ended;
  }

  get freeText(): boolean {
    if (this.#phase === 'after') return this.#rest.freeText;
    return this.#phase === 'inside' && this.#mayContinue;
  }

  takeForced(): number[] {
    const taken: number[] = [];
    if (this.#phase === 'before') {
      taken.push(this.#reasoning.open);
      this.#phase = 'inside';
    }
    if (this.#phase === 'inside') {
      if (this.#mayContinue) return taken;
      taken.push(this.#reasoning.close);
      this.#phase = 'after';
    }
    return [...taken, ...this.#rest.takeForced()];
  }

  legal(): TokenSet {
    if (this.#phase === 'after') return this.#rest.legal();
    this.#checkDecision();
    return this.#reasoning.legal;
  }

  prepare(shouldPause: ShouldPause): boolean {
    return this.#phase !== 'after' || this.#rest.prepare(shouldPause);
  }

  accept(token: number): void {
    if (this.#phase === 'after') {
      this.#rest.accept(token);
      return;
    }
    this.#checkDecision();
    if (token === this.#reasoning.close) this.#phase = 'after';
    else if (this.#reasoning.legal.has(token)) this.#length++;
    else
      throw new LanguageError(
        'illegal_token',
        `Token ${token} is not a text token. Reasoning contains only text.`,
      );
  }

  clone(): ReasoningState {
    const copy = new ReasoningState(this.#reasoning, this.#rest.clone());
    copy.#phase = this.#phase;
    copy.#length = this.#length;
    return copy;
  }

  dispose(): void {
    this.#phase = 'after';
    this.#rest.dispose();
  }

  get #mayContinue(): boolean {
    return this.#length < this.#reasoning.limit;
  }

  #checkDecision(): void {
    if (this.#phase === 'before' || !this.#mayContinue)
      throw new LanguageError(
        'forced_tokens_due',
        'The constraint forces the next tokens. Call takeForced() first.',
      );
  }
}

/** Refuses reasoning whose tokens could be confused with what follows it. */
export function checkReasoning(
  reasoning: NonNullable<Constraint['reasoning']>,
  special: ReadonlySet<number>,
  endToken: number,
): void {
  const refuse = (message: string): never => {
    throw new LanguageError('constraint_invalid', `Constraint: reasoning ${message}.`);
  };
  const { limit } = reasoning;
  if (!Number.isSafeInteger(limit) || limit < 0)
    refuse(`has limit ${limit}; it must be a whole number of at least 0`);
  if (isWritten(reasoning)) {
    if (reasoning.close === '') refuse('has an empty close, so it would never end');
    return;
  }
  const { open, close } = reasoning;
  for (const [name, token] of [
    ['open', open],
    ['close', close],
  ] as const)
    if (!special.has(token) || token === endToken)
      refuse(`has ${name} ${token}, which is not a special token that may enclose it`);
  if (open === close) refuse(`begins and ends with the same token ${open}`);
}

/** Whether the tags of reasoning are text. */
export const isWritten = (reasoning: NonNullable<Constraint['reasoning']>): reasoning is WrittenReasoning =>
  'before' in reasoning;
