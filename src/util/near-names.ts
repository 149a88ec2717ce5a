import { smallestOf } from './extremes.ts';
/**
 * How far a name is from what was typed: 0 for the same, infinite for names that do not resemble it. Typing mistakes rank
 * before names that contain the other name.
 */
export function nameDistance(typed: string, name: string): number {
  const edits = editDistance(typed, name);
  if (edits <= Math.max(1, Math.floor(Math.min(typed.length, name.length) / 3))) return edits;
  const [short, long] = typed.length < name.length ? [typed, name] : [name, typed];
  return short.length >= 4 && long.includes(short) ? 100 : Number.POSITIVE_INFINITY;
}

/** Number of insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      const edits = [(row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + cost];
      if (a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) edits.push((before[j - 2] ?? 0) + 1);
      next.push(smallestOf(edits));
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}

/** The names that most resemble what was typed, ignoring case, at most three; empty if none does. */
export function nearNames(typed: string, names: readonly string[]): string[] {
  const ranked = names.map((name) => ({ name, rank: nameDistance(typed.toLowerCase(), name.toLowerCase()) }));
  const best = smallestOf(ranked.map(({ rank }) => rank));
  if (best === Number.POSITIVE_INFINITY) return [];
  return ranked.flatMap(({ name, rank }) => (rank === best ? name : [])).slice(0, 3);
}
