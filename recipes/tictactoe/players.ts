import type { RolloutModel } from 'martingale';
import { scriptedModel } from 'martingale/testing';
import { Dice } from '../common/dice.ts';
import { type Board, bestMoves, moves } from './board.ts';

/** A player that is a function of the position, in place of a model. */
const player = (name: string, choices: (board: Board) => string[]): RolloutModel =>
  scriptedModel(
    ({ messages, seed }) => {
      // A position begins with the board.
      const [board = ''] = String(messages.at(-1)?.content).split(' ');
      return new Dice(seed ?? 0).pick(choices(board));
    },
    { name },
  );

/** Never loses: any of the best moves. */
export const perfectPlayer = player('perfect', bestMoves);

/** Any free cell. */
export const randomPlayer = player('random', moves);
