import { generateText } from 'ai';
import { defineEnvironment, type RolloutModel } from 'martingale';
import { z } from 'zod';
import { type Board, lines, markToMove, moves, perfectValue, play, resultOf } from './board.ts';

/** A game may begin with some moves already made. */
export const gameScenario = z.object({ id: z.string(), board: z.string().length(9) });

/** Both seats are played by the same model, each from its own side. */
export const ticTacToe = defineEnvironment({
  name: 'tic-tac-toe',
  scenario: gameScenario,
  seats: ['x', 'o'],
  rollout: async ({ scenario, seats, signal }) => {
    let { board } = scenario;
    for (;;) {
      const result = resultOf(board);
      if (result !== null) return result;
      const { model } = markToMove(board) === 'X' ? seats.x : seats.o;
      board = play(board, await chooseMove(model, board, signal));
    }
  },
  rewards: {
    points: ({ outcome, seat }) => (outcome === 'draw' ? 0.5 : Number(outcome === seat.toUpperCase())),
    // Whether the seat lost nothing that perfect play would have kept.
    success: {
      weight: 0,
      reward: ({ scenario, outcome, seat }) => {
        const side = seat === 'x' ? 1 : -1;
        const result = { X: 1, O: -1, draw: 0 }[outcome];
        return Number(side * result >= side * perfectValue(scenario.board));
      },
    },
  },
});

/** Whose turn it is, and the eight lines with the marks, and the numbers of free cells. */
export const positionOf = (board: Board): string =>
  `${markToMove(board)}: ${lines.map((line) => line.map((cell) => markAt(board, cell)).join(' ')).join(', ')}`;

const markAt = (board: Board, cell: number): string =>
  board[cell] === '.' ? String(cell + 1) : (board[cell] ?? '');

/** The position is the whole prompt, so every move begins a conversation of its own. */
async function chooseMove(model: RolloutModel, board: Board, abortSignal: AbortSignal): Promise<string> {
  const { text } = await generateText({
    model: model.languageModel,
    prompt: positionOf(board),
    providerOptions: { martingale: { structured_outputs: { choice: moves(board) } } },
    abortSignal,
  });
  return text;
}
