import type { Constraint } from '../constraint/constraint.ts';
import { LanguageError } from '../error.ts';
import type { ConstraintState } from './constraint-state.ts';
import type { IsOver } from './token-trie.ts';

export interface Reasoning extends NonNullable<Constraint['reasoning']> {
  /** Legal tokens while there is room for more text: every text token and `close`, ascending. */
  legal: Int32Array;
}

/** A reply that begins with its reasoning: any text, which may end anywhere and must end at the limit. */
export class ReasoningState implements ConstraintState {
  readonly #reasoning: Reasoning;
  readonly #rest: ConstraintState;
  #place: 'before' | 'inside' | 'behind' = 'before';
  /** Number of text tokens so far. */
  #taken = 0;

  constructor(reasoning: Reasoning, rest: ConstraintState) {
    this.#reasoning = reasoning;
    this.#rest = rest;
  }

  get ended(): boolean {
    return this.#rest.ended;
  }

  get freeText(): boolean {
    if (this.#place === 'behind') return this.#rest.freeText;
    return this.#place === 'inside' && this.#hasRoom;
  }

  takeForced(): number[] {
    const taken: number[] = [];
    if (this.#place === 'before') {
      taken.push(this.#reasoning.open);
      this.#place = 'inside';
    }
    if (this.#place === 'inside') {
      if (this.#hasRoom) return taken;
      taken.push(this.#reasoning.close);
      this.#place = 'behind';
    }
    return [...taken, ...this.#rest.takeForced()];
  }

  legal(): Int32Array {
    if (this.#place === 'behind') return this.#rest.legal();
    this.#checkDecision();
    return this.#reasoning.legal;
  }

  prepare(isOver: IsOver): boolean {
    return this.#place !== 'behind' || this.#rest.prepare(isOver);
  }

  accept(token: number): void {
    if (this.#place === 'behind') {
      this.#rest.accept(token);
      return;
    }
    this.#checkDecision();
    if (token === this.#reasoning.close) this.#place = 'behind';
    else if (this.#reasoning.legal.includes(token)) this.#taken++;
    else throw new LanguageError('illegal_token', `token ${token} is no text, which reasoning is made of`);
  }

  clone(): ReasoningState {
    const copy = new ReasoningState(this.#reasoning, this.#rest.clone());
    copy.#place = this.#place;
    copy.#taken = this.#taken;
    return copy;
  }

  dispose(): void {
    this.#place = 'behind';
    this.#rest.dispose();
  }

  get #hasRoom(): boolean {
    return this.#taken < this.#reasoning.limit;
  }

  #checkDecision(): void {
    if (this.#place === 'before' || !this.#hasRoom)
      throw new LanguageError(
        'forced_tokens_due',
        'the constraint forces what comes here: call takeForced() first',
      );
  }
}

/** Refuses reasoning whose tokens could be confused with what follows it. */
export function checkReasoning(
  { open, close, limit }: NonNullable<Constraint['reasoning']>,
  special: ReadonlySet<number>,
  endToken: number,
): void {
  const refuse = (message: string): never => {
    throw new LanguageError('constraint_invalid', `constraint: reasoning ${message}`);
  };
  for (const [name, token] of [
    ['open', open],
    ['close', close],
  ] as const)
    if (!special.has(token) || token === endToken)
      refuse(`has ${name} ${token}, which is not a special token that may stand around it`);
  if (open === close) refuse(`begins and ends with the same token ${open}`);
  if (!Number.isSafeInteger(limit) || limit < 0)
    refuse(`has limit ${limit}; it must be a whole number of tokens, 0 or more`);
}
