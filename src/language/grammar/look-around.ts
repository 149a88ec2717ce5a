import { getOrInsert } from '../../util/get-or-insert.ts';
import type { CodePointRange, Expression } from './expression.ts';
import {
  type Language,
  maxMoves,
  maxStates,
  Nondeterministic,
  type RegularState,
  tooLarge,
} from './nondeterministic.ts';
import { type Assertion, patternWithAssertions } from './regex.ts';
import { regularStates, withoutDeadEnds } from './regular.ts';

/** A state, and what must or must not follow besides. */
interface Thread {
  state: number;
  holds: readonly Hold[];
}

interface Hold {
  isNegative: boolean;
  threads: readonly Thread[];
}

/** Where in the text a state is closed. */
interface Here {
  isStart: boolean;
  isEnd: boolean;
  /** The states of the look-behinds; -1 if none of their texts may follow. */
  behind: readonly number[];
}

const keyOf = ({ state, holds }: Thread): string => `${state}${holds.map(keyOfHold).join('')}`;
const keyOfHold = ({ isNegative, threads }: Hold): string =>
  `${isNegative ? '!' : '='}(${threads.map(keyOf).join()})`;

const sorted = (threads: Iterable<Thread>): Thread[] =>
  Array.from(threads, (thread) => ({ thread, key: keyOf(thread) }))
    .sort((left, right) => (left.key < right.key ? -1 : 1))
    .map(({ thread }) => thread);

/**
 * The texts that contain a match of a pattern, or with `isWhole` match it as a whole. With look-around, word boundaries
 * or anchors within the pattern, as a deterministic automaton.
 * @throws LanguageError `grammar_too_large` if the automaton has too many states.
 */
export function patternLanguage(source: string, { isWhole = false, where = '' } = {}): Language {
  const { expression, assertions } = patternWithAssertions(source, isWhole);
  return assertions.size === 0 ? expression : new AssertedLanguage(expression, assertions, where).states();
}

/**
 * Regular languages are closed under assertions. A state of the automaton is a set of threads. A thread that has passed
 * a look-ahead carries the threads of what is looked for.
 */
class AssertedLanguage extends Nondeterministic {
  readonly #assertions: ReadonlyMap<string, Assertion>;
  readonly #where: string;
  readonly #guards = new Map<number, { assertion: Assertion; next: number; begin: number; behind: number }>();
  readonly #behinds: (readonly RegularState[])[] = [];
  readonly #end: number;
  /** The end of what is looked for ahead: any text may follow. */
  readonly #seen: number;
  readonly #start: number;
  #followed = 0;

  constructor(expression: Expression, assertions: ReadonlyMap<string, Assertion>, where: string) {
    super(where);
    this.#assertions = assertions;
    this.#where = where;
    this.#end = this.add();
    this.#seen = this.add();
    this.#start = this.build(expression, this.#end);
  }

  protected override rule(name: string, next: number): number {
    const assertion = this.#assertions.get(name);
    if (!assertion) return super.rule(name, next);
    const state = this.add();
    const begin = assertion.kind === 'ahead' ? this.build(assertion.body, this.#seen) : -1;
    const behind =
      assertion.kind === 'behind' ? this.#behinds.push(regularStates([assertion.body], []) ?? []) - 1 : -1;
    this.#guards.set(state, { assertion, next, begin, behind });
    return state;
  }

  states(): RegularState[] {
    const found: { threads: readonly Thread[]; behind: readonly number[]; state: RegularState }[] = [];
    const indices = new Map<string, number>();
    const indexOf = (threads: readonly Thread[], here: Here): number =>
      getOrInsert(indices, `${here.isStart}${threads.map(keyOf).join()} ${here.behind.join()}`, () => {
        if (found.length >= maxStates) throw tooLarge(this.#where);
        const atEnd = { ...here, isEnd: true };
        const isEnd = this.#matches(this.#close(threads, atEnd), this.#end, atEnd);
        return found.push({ threads, behind: here.behind, state: { isEnd, moves: [] } }) - 1;
      });
    const behind = this.#behinds.map((states) => (states.length > 0 ? 0 : -1));
    const first = { isStart: true, isEnd: false, behind };
    indexOf(this.#close([{ state: this.#start, holds: [] }], first), first);
    const classes = this.#classes();
    for (const { threads, behind: before, state } of found) {
      const moves = new Map<number, CodePointRange[]>();
      for (const range of classes) {
        const here = { isStart: false, isEnd: false, behind: this.#behindAfter(before, range[0]) };
        const next = this.#step(threads, range[0], here);
        if (next.length > 0) getOrInsert(moves, indexOf(next, here), () => []).push(range);
      }
      state.moves = Array.from(moves, ([to, ranges]) => ({ to, ranges }));
    }
    return withoutDeadEnds(found.map(({ state }) => state)) ?? [];
  }

  /** Ranges of characters that no move tells apart. */
  #classes(): CodePointRange[] {
    const ofBehinds = this.#behinds.flat().flatMap(({ moves }) => moves.flatMap(({ ranges }) => ranges));
    const ranges = [...this.moves.flat().map(({ first, last }) => [first, last] as const), ...ofBehinds];
    const borders = new Set([0, 0x110000, ...ranges.flatMap(([first, last]) => [first, last + 1])]);
    const from = [...borders].sort((left, right) => left - right);
    return from.slice(1).map((next, index): CodePointRange => [from[index] ?? 0, next - 1]);
  }

  #behindAfter(behind: readonly number[], code: number): number[] {
    const isIn = ([first, last]: CodePointRange) => first <= code && code <= last;
    return behind.map(
      (at, index) => this.#behinds[index]?.[at]?.moves.find(({ ranges }) => ranges.some(isIn))?.to ?? -1,
    );
  }

  #step(threads: readonly Thread[], code: number, here: Here): Thread[] {
    const next: Thread[] = [];
    for (const { state, holds } of threads) {
      this.#followed += 1 + this.moves[state]!.length;
      if (this.#followed > maxMoves) throw tooLarge(this.#where);
      const after = this.#held(
        holds.map((hold) => ({ ...hold, threads: this.#step(hold.threads, code, here) })),
        here,
      );
      if (!after) continue;
      if (state === this.#seen) next.push({ state, holds: after });
      for (const { first, last, to } of this.moves[state]!)
        if (first <= code && code <= last) next.push({ state: to, holds: after });
    }
    return this.#close(next, here);
  }

  /** Follows what takes no character. */
  #close(threads: readonly Thread[], here: Here): Thread[] {
    const found = new Map<string, Thread>();
    const pending: Thread[] = [];
    const reach = (thread: Thread) => {
      const key = keyOf(thread);
      if (found.has(key)) return;
      if (++this.#followed > maxMoves) throw tooLarge(this.#where);
      found.set(key, thread);
      pending.push(thread);
    };
    for (const thread of threads) reach(thread);
    for (let thread = pending.pop(); thread; thread = pending.pop()) {
      const { state, holds } = thread;
      for (const next of this.empty[state]!) reach({ state: next, holds });
      const guard = this.#guards.get(state);
      const after = guard && this.#after(guard, holds, here);
      if (guard && after) reach({ state: guard.next, holds: after });
    }
    const mayStay = ({ state }: Thread) =>
      this.moves[state]!.length > 0 ||
      state === this.#end ||
      state === this.#seen ||
      this.#guards.get(state)?.assertion.kind === 'end';
    return sorted([...found.values()].filter(mayStay));
  }

  /** What a thread must hold once it has passed an assertion; null if it does not pass. */
  #after(
    { assertion, begin, behind }: { assertion: Assertion; begin: number; behind: number },
    holds: readonly Hold[],
    here: Here,
  ): readonly Hold[] | null {
    if (assertion.kind === 'start') return here.isStart ? holds : null;
    if (assertion.kind === 'end') return here.isEnd ? holds : null;
    const { isNegative } = assertion;
    if (assertion.kind === 'behind') {
      const isMatch = this.#behinds[behind]?.[here.behind[behind] ?? -1]?.isEnd === true;
      return isMatch === isNegative ? null : holds;
    }
    const threads = this.#close([{ state: begin, holds: [] }], here);
    return this.#held([...holds, { isNegative, threads }], here);
  }

  /** The holds that are still open; null if one fails. What must not follow is one hold. */
  #held(holds: readonly Hold[], here: Here): readonly Hold[] | null {
    const open = new Map<string, Hold>();
    const forbidden = new Map<string, Thread>();
    for (const { isNegative, threads } of holds) {
      const closed = here.isEnd ? this.#close(threads, here) : threads;
      const isMatch = here.isEnd
        ? this.#matches(closed, this.#seen, here)
        : threads.some((thread) => thread.state === this.#seen && thread.holds.length === 0);
      const isOver = isMatch || here.isEnd || threads.length === 0;
      if (isOver && isMatch === isNegative) return null;
      if (isOver) continue;
      if (isNegative) for (const thread of threads) forbidden.set(keyOf(thread), thread);
      else open.set(keyOfHold({ isNegative, threads }), { isNegative, threads });
    }
    const kept = [...open].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, hold]) => hold);
    return forbidden.size > 0 ? [...kept, { isNegative: true, threads: sorted(forbidden.values()) }] : kept;
  }

  /** Whether threads match a text that ends here. */
  #matches(threads: readonly Thread[], end: number, here: Here): boolean {
    return threads.some(({ state, holds }) => state === end && this.#held(holds, here) !== null);
  }
}
