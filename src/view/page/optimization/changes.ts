/** A piece of a text beside another one: in both, or only in the first or the second. */
export interface Piece {
  in: 'both' | 'first' | 'second';
  text: string;
}

/** Texts with more words than this, multiplied, are shown as replaced in their middle. */
const maxCells = 4_000_000;

/** How two texts differ, word by word: the longest common sequence of words stays, in as few pieces as possible. */
export function changesOf(first: string, second: string): Piece[] {
  const [a, b] = [wordsOf(first), wordsOf(second)];
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start++;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const middle = between(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const pieces: Piece[] = [];
  for (const piece of [
    { in: 'both' as const, text: a.slice(0, start).join('') },
    ...middle,
    { in: 'both' as const, text: a.slice(a.length - end).join('') },
  ]) {
    const last = pieces.at(-1);
    if (last?.in === piece.in) last.text += piece.text;
    else if (piece.text !== '') pieces.push({ ...piece });
  }
  return pieces;
}

/** Words and the spaces between them: joined, they are the text. */
const wordsOf = (text: string): string[] => text.match(/\s+|\S+/g) ?? [];

function between(a: readonly string[], b: readonly string[]): Piece[] {
  if (a.length * b.length > maxCells)
    return [
      { in: 'first', text: a.join('') },
      { in: 'second', text: b.join('') },
    ];
  const width = b.length + 1;
  /** Length of the longest common sequence from here on. */
  const lengths = new Uint32Array((a.length + 1) * width);
  const lengthAt = (row: number, column: number) => lengths[row * width + column] ?? 0;
  for (let row = a.length - 1; row >= 0; row--)
    for (let column = b.length - 1; column >= 0; column--)
      lengths[row * width + column] =
        a[row] === b[column]
          ? lengthAt(row + 1, column + 1) + 1
          : Math.max(lengthAt(row + 1, column), lengthAt(row, column + 1));
  const pieces: Piece[] = [];
  let [row, column] = [0, 0];
  while (row < a.length || column < b.length) {
    const isSame = row < a.length && column < b.length && a[row] === b[column];
    if (isSame) {
      pieces.push({ in: 'both', text: a[row++] ?? '' });
      column++;
    } else if (
      column === b.length ||
      (row < a.length && lengthAt(row + 1, column) >= lengthAt(row, column + 1))
    )
      pieces.push({ in: 'first', text: a[row++] ?? '' });
    else pieces.push({ in: 'second', text: b[column++] ?? '' });
  }
  return pieces;
}
