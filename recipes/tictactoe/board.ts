/** `X`, `O` or `.` for each of the nine cells, row by row. */
export type Board = string;

export const emptyBoard: Board = '.........';

/** The cells of the eight lines, rows first, counted from 0. */
export const lines = ['012', '345', '678', '036', '147', '258', '048', '246'].map((line) =>
  [...line].map(Number),
);

/** Whose turn it is: X moves first. */
export const markToMove = (board: Board): 'X' | 'O' =>
  [...board].filter((cell) => cell !== '.').length % 2 === 0 ? 'X' : 'O';

/** The numbers of the free cells, from 1 to 9. */
export const moves = (board: Board): string[] =>
  [...board].flatMap((cell, at) => (cell === '.' ? [String(at + 1)] : []));

export const play = (board: Board, move: string): Board =>
  board.slice(0, Number(move) - 1) + markToMove(board) + board.slice(Number(move));

/** The winner, `draw`, or null while the game goes on. */
export function resultOf(board: Board): 'X' | 'O' | 'draw' | null {
  for (const line of lines) {
    const [first, ...others] = line.map((cell) => board[cell]);
    if ((first === 'X' || first === 'O') && others.every((mark) => mark === first)) return first;
  }
  return board.includes('.') ? null : 'draw';
}

const values = new Map<Board, number>();

/** The value of a position for X with perfect play of both: 1, 0 or -1. */
export function perfectValue(board: Board): number {
  const known = values.get(board);
  if (known !== undefined) return known;
  const result = resultOf(board);
  const after = () => moves(board).map((move) => perfectValue(play(board, move)));
  const value =
    result === null
      ? markToMove(board) === 'X'
        ? Math.max(...after())
        : Math.min(...after())
      : { X: 1, O: -1, draw: 0 }[result];
  values.set(board, value);
  return value;
}

/** The moves that keep the best value. */
export function bestMoves(board: Board): string[] {
  return moves(board).filter((move) => perfectValue(play(board, move)) === perfectValue(board));
}
