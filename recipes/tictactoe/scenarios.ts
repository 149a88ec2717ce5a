import { deriveSeed } from 'martingale';
import type { z } from 'zod';
import { Dice } from '../common/dice.ts';
import { type Board, emptyBoard, moves, play, resultOf } from './board.ts';
import type { gameScenario } from './environment.ts';

type Game = z.infer<typeof gameScenario>;

/** Most random moves before a game of training begins. */
const maxOpening = 7;

/** Games that begin after up to seven random moves, so that training sees positions that good play avoids. */
export function openings({ seed, count }: { seed: number; count: number }): Game[] {
  const dice = new Dice(deriveSeed(seed, 0));
  return Array.from({ length: count }, (_, at) => ({ id: `opening-${at}`, board: opening(dice) }));
}

function opening(dice: Dice): Board {
  for (;;) {
    let board = emptyBoard;
    const length = dice.below(maxOpening + 1);
    for (let move = 0; move < length; move++) board = play(board, dice.pick(moves(board)));
    if (resultOf(board) === null) return board;
  }
}

/** Whole games from the empty board, which differ by the seeds of their rollouts. */
export const wholeGames = (count: number): Game[] =>
  Array.from({ length: count }, (_, at) => ({ id: `game-${at}`, board: emptyBoard }));
