import { generateText } from 'ai';
import { defineEnvironment, type RolloutModel } from 'martingale';
import { z } from 'zod';
import { type Board, markToMove, moves, play, resultOf } from './board.ts';

/** A game may begin with some moves already made. */
export const gameScenario = z.object({ id: z.string(), board: z.string().length(9) });

/** Both seats are played by the same model, each from its own side. */
export const ticTacToe = defineEnvironment({
  name: 'tic-tac-toe',
  scenario: gameScenario,
  seats: ['x', 'o'],
  rollout: async ({ scenario, seats, signal }) => {
    let { board } = scenario;
    while (resultOf(board) === null) {
      const { model } = markToMove(board) === 'X' ? seats.x : seats.o;
      board = play(board, await chooseMove(model, board, signal));
    }
    return resultOf(board);
  },
  rewards: {
    points: ({ outcome, seat }) => (outcome === 'draw' ? 0.5 : Number(outcome === seat.toUpperCase())),
    success: {
      weight: 0,
      reward: ({ outcome, seat }) => Number(outcome === 'draw' || outcome === seat.toUpperCase()),
    },
  },
});

/** Whose turn it is, and the cells: the marks, and the numbers of free ones. */
export const positionOf = (board: Board): string =>
  `${markToMove(board)}: ${[...board].map((cell, at) => (cell === '.' ? at + 1 : cell)).join(' ')}`;

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
