import { smallestOf } from '../../../util/extremes.ts';
import type { TurnView } from '../../api.ts';

/** The first place where conversations part. */
export interface Parting {
  /** Number of turns at the beginning that are the same in all of them. */
  turns: number;
  /** The part of the next turn in which they differ first. */
  field: 'role' | 'reasoning' | 'text' | 'tools' | 'end';
  /** Characters of that field which are still the same in all. For `role` and `end` 0. */
  characters: number;
}

const fields = ['reasoning', 'text', 'tools'] as const;

/** A field of a turn as text. The ids of tool calls are random, so they are left out. */
const textOf = (turn: TurnView, field: (typeof fields)[number]): string =>
  field === 'tools'
    ? JSON.stringify((turn.tools ?? []).map(({ name, arguments: written }) => [name, written]))
    : (turn[field] ?? '');

/**
 * Finds the first place where conversations part: `end` where one of them has no more turns. Null if all are the same, or
 * if there are fewer than two.
 */
export function partingOf(conversations: readonly (readonly TurnView[])[]): Parting | null {
  const [first, ...others] = conversations;
  if (!first || others.length === 0) return null;
  for (let turns = 0; ; turns++) {
    const turn = first[turns];
    const same = others.map((other) => other[turns]);
    if (!turn && same.every((other) => !other)) return null;
    if (!turn || same.some((other) => !other)) return { turns, field: 'end', characters: 0 };
    const present = same.filter((other) => other !== undefined);
    if (present.some(({ role }) => role !== turn.role)) return { turns, field: 'role', characters: 0 };
    for (const field of fields) {
      const text = textOf(turn, field);
      const lengths = present.map((other) => commonPrefix(text, textOf(other, field)));
      const differ = present.some((other) => textOf(other, field) !== text);
      if (differ) return { turns, field, characters: smallestOf(lengths) };
    }
  }
}

/** Length of the beginning that two texts share, without half of a character. */
export function commonPrefix(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  let at = 0;
  while (at < length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  const last = a.charCodeAt(at - 1);
  const splitsPair = at > 0 && at < Math.max(a.length, b.length) && last >= 0xd800 && last <= 0xdbff;
  return splitsPair ? at - 1 : at;
}
