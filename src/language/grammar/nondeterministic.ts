import { LanguageError } from '../error.ts';
import type { CodePointRange, Expression } from './expression.ts';

/** Most states of an automaton, and most moves that are followed to build it: some 0.3 seconds. */
export const maxStates = 10_000;
export const maxMoves = 500_000;
export interface Move {
  first: number;
  last: number;
  to: number;
}

/** What may follow a text of a regular language. Every state leads to an end. */
export interface RegularState {
  isEnd: boolean;
  moves: { ranges: CodePointRange[]; to: number }[];
}

/** An expression without rules, or a deterministic automaton; an empty one has no texts. */
export type Language = Expression | readonly RegularState[];

/** States of several languages, as nondeterministic automata over code points (Thompson's method). */
export class Nondeterministic {
  readonly empty: number[][] = [];
  readonly moves: Move[][] = [];
  readonly #where: string;

  /** @param where What messages begin with. */
  constructor(where = '') {
    this.#where = where;
  }

  add(): number {
    if (this.moves.length >= maxStates) throw tooLarge(this.#where);
    this.empty.push([]);
    return this.moves.push([]) - 1;
  }

  /** Adds a language that ends in `next`. Returns its first state. */
  build(language: Language, next: number): number {
    return 'kind' in language ? this.#expression(language, next) : this.#automaton(language, next);
  }

  #automaton(states: readonly RegularState[], next: number): number {
    const first = this.add();
    for (let count = 1; count < states.length; count++) this.add();
    for (const [index, { isEnd, moves }] of states.entries()) {
      if (isEnd) this.empty[first + index] = [next];
      this.moves[first + index] = moves.flatMap(({ ranges, to }) =>
        ranges.map((range) => ({ first: range[0], last: range[1], to: first + to })),
      );
    }
    return first;
  }

  #expression(expression: Expression, next: number): number {
    switch (expression.kind) {
      case 'literal':
        return [...expression.text].reduceRight((following, character) => {
          const code = character.codePointAt(0) ?? 0;
          return this.#reading([[code, code]], following);
        }, next);
      case 'characters':
        return this.#reading(expression.ranges, next);
      case 'sequence':
        return expression.parts.reduceRight((following, part) => this.build(part, following), next);
      case 'choice':
        return this.#leadingTo(expression.alternatives.map((one) => this.build(one, next)));
      case 'repeat': {
        const { body, minimum, maximum } = expression;
        let entry = next;
        if (maximum === null) {
          entry = this.#leadingTo([next]);
          this.empty[entry]!.push(this.build(body, entry));
        } else
          for (let count = minimum; count < maximum; count++)
            entry = this.#leadingTo([next, this.build(body, entry)]);
        for (let count = 0; count < minimum; count++) entry = this.build(body, entry);
        return entry;
      }
      case 'rule':
        return this.rule(expression.name, next);
      case 'distinct':
      case 'counted':
        throw new Error(`a ${expression.kind} part is in an expression that must be regular`);
    }
  }

  /** Adds a rule. */
  protected rule(name: string, _next: number): number {
    throw new Error(`the rule ${name} is in an expression that must be regular`);
  }

  #reading(ranges: readonly CodePointRange[], next: number): number {
    const state = this.add();
    this.moves[state] = ranges.map(([first, last]) => ({ first, last, to: next }));
    return state;
  }

  #leadingTo(states: number[]): number {
    const state = this.add();
    this.empty[state] = states;
    return state;
  }

  /** The states, and those that are reached from them without a character. */
  closure(states: Iterable<number>): number[] {
    const found = new Set(states);
    for (const state of found) for (const next of this.empty[state]!) found.add(next);
    return [...found]
      .filter((state) => this.moves[state]!.length > 0 || this.empty[state]!.length === 0)
      .sort((a, b) => a - b);
  }
}

/** Whether texts are in a language. It takes time with the length of a text. */
export function matcherOf(language: Language): (text: string) => boolean {
  const source = new Nondeterministic();
  const end = source.add();
  const start = source.closure([source.build(language, end)]);
  return (text) => {
    let states = start;
    for (const character of text) {
      const code = character.codePointAt(0) ?? 0;
      const moves = states.flatMap((state) => source.moves[state]!);
      states = source.closure(
        moves.filter(({ first, last }) => first <= code && code <= last).map(({ to }) => to),
      );
      if (states.length === 0) return false;
    }
    return states.includes(end);
  };
}

export const tooLarge = (where: string) =>
  new LanguageError(
    'grammar_too_large',
    `${where}Patterns, formats and lengths that hold together need more than ${maxStates} states. Use shorter patterns, or a smaller maxLength, or leave maxLength out.`,
  );
