import { getOrInsert } from '../../util/get-or-insert.ts';
import type { AutomatonState } from './automaton-state.ts';
import { kindOf, nodeKinds } from './token-trie.ts';
import { utf8Sequences } from './utf8-sequences.ts';

/** Fewest ASCII characters of a loop. With fewer, following each byte is as fast. */
const minCharacters = 16;
const asciiCharacters = 0x80;
/** The UTF-8 of all other characters, by kind: each a list of byte ranges. */
const otherSequences = [
  { kind: nodeKinds.wide, sequences: utf8Sequences([asciiCharacters, 0xffff]) },
  { kind: nodeKinds.astral, sequences: utf8Sequences([0x10000, 0x10ffff]) },
];
/** Most characters of a run. Few tokens are longer. */
export const maxRunLength = 32;

/** Characters that all lead from a state to one other. */
interface Loop {
  /** 1 for each kind of node (see `TokenTrie.kinds`) that belongs to these characters. */
  kinds: Uint8Array;
  /** One of them. Leads to the other state, which is not kept here: the automaton decides which states to keep. */
  byte: number;
}

const loops = new WeakMap<AutomatonState, Loop | null>();

const loopOf = (state: AutomatonState): Loop | null => getOrInsert(loops, state, () => findLoop(state));

function findLoop(state: AutomatonState): Loop | null {
  const counts = new Map<AutomatonState, number>();
  let most = minCharacters - 1;
  let loop: { byte: number; to: AutomatonState } | null = null;
  for (let byte = 0; byte < asciiCharacters; byte = state.rangeEnd(byte)) {
    const to = state.step(byte);
    if (!to) continue;
    const count = (counts.get(to) ?? 0) + Math.min(state.rangeEnd(byte), asciiCharacters) - byte;
    counts.set(to, count);
    if (count > most) [most, loop] = [count, { byte, to }];
  }
  if (!loop) return null;
  const kinds = new Uint8Array(0x100);
  for (let byte = 0; byte < asciiCharacters; byte = state.rangeEnd(byte))
    if (state.step(byte) === loop.to) kinds.fill(1, byte, Math.min(state.rangeEnd(byte), asciiCharacters));
  for (const { kind, sequences } of otherSequences)
    if (sequences.every((ranges) => targetOf(state, ranges) === loop.to)) kinds[kind] = 1;
  return { kinds, byte: loop.byte };
}

/** The one state to which all byte sequences of these ranges lead; null if there is none. */
function targetOf(
  from: AutomatonState,
  ranges: readonly (readonly [number, number])[],
): AutomatonState | null {
  let state: AutomatonState | null = from;
  for (const [first, last] of ranges) {
    const to: AutomatonState | null = state.step(first);
    for (let byte = state.rangeEnd(first); byte <= last; byte = state.rangeEnd(byte))
      if (state.step(byte) !== to) return null;
    if (!to) return null;
    state = to;
  }
  return state;
}

/**
 * A text of characters that all lead from each state to the same next one: in a JSON string, all but quotation marks,
 * backslashes and control characters. Whether a token fits into it depends only on its kinds and number of characters.
 */
export class CharacterRun {
  /** 1 for each kind of node (see `TokenTrie.kinds`) that continues the run. */
  readonly kinds: Uint8Array;
  /** The state after each number of characters. */
  readonly states: readonly AutomatonState[];

  /** The run that begins at a state; null if there is none. */
  static from(start: AutomatonState): CharacterRun | null {
    const loop = loopOf(start);
    return loop && new CharacterRun(start, loop);
  }

  private constructor(start: AutomatonState, { kinds, byte }: Loop) {
    this.kinds = kinds;
    const states = [start];
    let state = start;
    while (states.length <= maxRunLength) {
      const others = loopOf(state)?.kinds;
      if (!others || !kinds.every((kind, index) => kind <= others[index]!)) break;
      state = state.step(byte)!;
      states.push(state);
    }
    this.states = states;
  }

  get last(): AutomatonState {
    return this.states.at(-1)!;
  }

  /** Whether no character of the run may follow the last one. */
  get isClosed(): boolean {
    for (let byte = 0; byte < 0x100; byte++)
      if (this.kinds[kindOf(byte)] === 1 && this.last.step(byte)) return false;
    return true;
  }
}
