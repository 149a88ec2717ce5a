import { runGroups } from 'martingale';
import { expect, it } from 'vitest';
import {
  bestMoves,
  emptyBoard,
  markToMove,
  moves,
  perfectValue,
  play,
  resultOf,
} from '../../../recipes/tictactoe/board.ts';
import { ticTacToe } from '../../../recipes/tictactoe/environment.ts';
import { perfectPlayer, randomPlayer } from '../../../recipes/tictactoe/players.ts';
import { openings, wholeGames } from '../../../recipes/tictactoe/scenarios.ts';

const playing = async (model: typeof randomPlayer, seats: Record<string, typeof randomPlayer>) => {
  const { groups } = await runGroups({
    environment: ticTacToe,
    scenarios: wholeGames(40),
    rolloutsPerGroup: 1,
    model,
    seats,
  });
  return groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward));
};

it('has 5,478 positions, and is a draw with perfect play', () => {
  const seen = new Set([emptyBoard]);
  for (const board of seen)
    if (resultOf(board) === null) for (const move of moves(board)) seen.add(play(board, move));
  expect(seen.size).toBe(5478);
  expect(perfectValue(emptyBoard)).toBe(0);
});

it('sees a win and a fork', () => {
  expect(resultOf('XXXOO....')).toBe('X');
  expect(resultOf('XOXXOOOXX')).toBe('draw');
  expect(bestMoves('XX.OO....')).toEqual(['3']);
  expect(bestMoves('X...O...X')).toEqual(['2', '4', '6', '8']);
});

it('is never lost by the perfect player, from either seat', async () => {
  const asX = await playing(perfectPlayer, { o: randomPlayer });
  const asO = await playing(perfectPlayer, { x: randomPlayer });
  expect(asX.every((reward) => reward === 0.5 || reward === 1)).toBe(true);
  expect(asO.every((reward) => reward === 0.5 || reward === 1)).toBe(true);
  expect(asX.filter((reward) => reward === 1).length).toBeGreaterThan(20);
  expect(new Set(await playing(perfectPlayer, { o: perfectPlayer }))).toEqual(new Set([0.5]));
});

it('begins at positions that can still be played, of both sides', () => {
  const boards = openings({ seed: 1, count: 300 }).map(({ board }) => board);
  expect(boards.every((board) => resultOf(board) === null)).toBe(true);
  expect(new Set(boards.map(markToMove))).toEqual(new Set(['X', 'O']));
  expect(openings({ seed: 1, count: 300 })).toEqual(openings({ seed: 1, count: 300 }));
});
