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

/**
 * The board, then the free cells, each with what lies on its lines beside it: `m` for a mark of mine, `y` for one of
 * yours. Two of mine win, two of yours must be stopped: what that is worth is for the model to find out.
 */
export function positionOf(board: Board): string {
  const mine = markToMove(board);
  const cells = moves(board).map((move) => {
    const cell = Number(move) - 1;
    const beside = lines.filter((line) => line.includes(cell)).map((line) => marksBeside(board, line, mine));
    return [move, ...beside.filter((marks) => marks !== '')].join(' ');
  });
  return `${board} ${cells.join(', ')}`;
}

const marksBeside = (board: Board, line: readonly number[], mine: string): string =>
  line
    .flatMap((cell) => (board[cell] === '.' ? [] : [board[cell] === mine ? 'm' : 'y']))
    .sort()
    .join('');

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
