import { LanguageError } from '../error.ts';
import { type CodePointRange, characters, choice, type Expression, literal, sequence } from './expression.ts';
import type { Spelling } from './regex.ts';

/** Most states of an automaton, and most moves that are followed to build it: some 0.3 seconds. */
export const maxStates = 10_000;
export const maxMoves = 500_000;
/** States that are written within each other, before one gets a rule of its own. */
const maxInline = 30;

interface Move {
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

/**
 * The texts that are in all of `all` and in none of `none`, as a deterministic automaton that starts at its first state.
 * Null if there is no such text.
 * @param where What messages begin with: the schema.
 * @throws LanguageError `grammar_too_large` if the automaton has too many states.
 */
export function regularStates(
  all: readonly Language[],
  none: readonly Language[],
  where = '',
): RegularState[] | null {
  const source = new Nondeterministic(where);
  const languages = [...all, ...none].map((language) => {
    const end = source.add();
    return { end, start: source.closure([source.build(language, end)]) };
  });
  const ends = languages.map(({ end }) => end);
  const isEnd = (sets: number[][]) =>
    sets.every((states, index) => states.includes(ends[index]!) === index < all.length);
  const found: { sets: number[][]; state: RegularState }[] = [];
  const indices = new Map<string, number>();
  const indexOf = (sets: number[][]): number => {
    const key = sets.map((states) => states.join()).join('|');
    const known = indices.get(key);
    if (known !== undefined) return known;
    if (found.length >= maxStates) throw tooLarge(where);
    indices.set(key, found.length);
    return found.push({ sets, state: { isEnd: isEnd(sets), moves: [] } }) - 1;
  };
  indexOf(languages.map(({ start }) => start));
  let followed = 0;
  for (const { sets, state } of found) {
    const moves = sets.map((states) => states.flatMap((one) => source.moves[one]!));
    const byTarget = new Map<number, CodePointRange[]>();
    for (const [first, last] of between(moves.slice(0, all.length).flat(), moves.flat())) {
      followed += moves.reduce((sum, { length }) => sum + length, 1);
      if (followed > maxMoves) throw tooLarge(where);
      const next = moves.map((of) =>
        source.closure(of.filter((move) => move.first <= first && first <= move.last).map(({ to }) => to)),
      );
      if (next.slice(0, all.length).some((states) => states.length === 0)) continue;
      const target = indexOf(next);
      const ranges = byTarget.get(target) ?? [];
      const previous = ranges.at(-1);
      if (previous && previous[1] === first - 1) ranges[ranges.length - 1] = [previous[0], last];
      else ranges.push([first, last]);
      byTarget.set(target, ranges);
    }
    state.moves = Array.from(byTarget, ([to, ranges]) => ({ ranges, to }));
  }
  return withoutDeadEnds(found.map(({ state }) => state));
}

/** The ranges between the borders of all moves, as far as a wanted move covers them. */
function* between(wanted: readonly Move[], all: readonly Move[]): Iterable<CodePointRange> {
  const borders = [...new Set(all.flatMap(({ first, last }) => [first, last + 1]))].sort((a, b) => a - b);
  for (const [index, first] of borders.entries()) {
    const next = borders[index + 1];
    if (next !== undefined && wanted.some((move) => move.first <= first && first <= move.last))
      yield [first, next - 1];
  }
}

export function withoutDeadEnds(states: RegularState[]): RegularState[] | null {
  const sources = states.map((): number[] => []);
  for (const [index, { moves }] of states.entries()) for (const { to } of moves) sources[to]!.push(index);
  const live = new Set(states.flatMap(({ isEnd }, index) => (isEnd ? [index] : [])));
  for (const index of live) for (const source of sources[index]!) live.add(source);
  if (!live.has(0)) return null;
  for (const state of states) state.moves = state.moves.filter(({ to }) => live.has(to));
  return states;
}

/** The fewest characters from each state of an automaton to the end of a text. */
export function distancesToEnd(states: readonly RegularState[]): number[] {
  const sources = states.map((): number[] => []);
  for (const [index, { moves }] of states.entries()) for (const { to } of moves) sources[to]!.push(index);
  const distances = new Map<number, number>();
  for (const [index, { isEnd }] of states.entries()) if (isEnd) distances.set(index, 0);
  for (const [index, distance] of distances)
    for (const source of sources[index]!) if (!distances.has(source)) distances.set(source, distance + 1);
  return states.map((_, index) => distances.get(index) ?? Number.POSITIVE_INFINITY);
}

/** The language as an expression. `define` gives a rule its name before its body is known. */
export function regularExpression(
  states: readonly RegularState[],
  spelling: Spelling,
  define: (index: number, body: (() => Expression) | null) => Expression,
): Expression {
  const uses = states.map(() => 0);
  for (const { moves } of states) for (const { to } of moves) uses[to]!++;
  const written = new Set<number>();
  const bodyOf = (index: number, depth: number): Expression => {
    const { isEnd, moves } = states[index]!;
    const following = (to: number): Expression => {
      if (to !== 0 && uses[to] === 1 && depth < maxInline) return bodyOf(to, depth + 1);
      if (written.has(to)) return define(to, null);
      written.add(to);
      pending.push(to);
      return define(to, null);
    };
    return choice([
      ...(isEnd ? [literal('')] : []),
      ...moves.map(({ ranges, to }) => {
        const last = states[to]!;
        const read = ranges.length === 0 ? characters([]) : spelling(ranges);
        return last.moves.length === 0 ? read : sequence([read, following(to)]);
      }),
    ]);
  };
  const pending = [0];
  written.add(0);
  for (let index = pending.pop(); index !== undefined; index = pending.pop()) {
    const at = index;
    define(at, () => bodyOf(at, 0));
  }
  return define(0, null);
}

export const tooLarge = (where: string) =>
  new LanguageError(
    'grammar_too_large',
    `${where}Patterns, formats and lengths that hold together need more than ${maxStates} states. Use shorter patterns, or a smaller maxLength, or leave maxLength out.`,
  );
