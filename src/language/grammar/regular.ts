import { type CodePointRange, characters, choice, type Expression, literal, sequence } from './expression.ts';
import {
  type Language,
  type Move,
  maxMoves,
  maxStates,
  Nondeterministic,
  type RegularState,
  tooLarge,
} from './nondeterministic.ts';
import type { Spelling } from './regex.ts';

/** States that are written within each other, before one gets a rule of its own. */
const maxInline = 30;

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
