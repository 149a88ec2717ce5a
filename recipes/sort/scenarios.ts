import { deriveSeed } from 'martingale';
import { z } from 'zod';
import { Dice } from '../common/dice.ts';

/** Number of digits to sort. */
export const length = 5;

export const sortScenario = z.object({ id: z.string(), digits: z.string().regex(/^[0-9]+$/) });

export type SortScenario = z.infer<typeof sortScenario>;

export type Split = 'train' | 'val';

/** Digits whose sum is a multiple of seven are for validation, so that no set of digits is in both splits. */
export const splitOf = (digits: string): Split =>
  [...digits].reduce((sum, digit) => sum + Number(digit), 0) % 7 === 0 ? 'val' : 'train';

export function drawDigits(split: Split, dice: Dice): string {
  for (;;) {
    const digits = dice.digits(length);
    if (splitOf(digits) === split) return digits;
  }
}

/** Scenarios of a split. The same seed gives the same scenarios. */
export function sortScenarios({
  split,
  seed,
  count,
}: {
  split: Split;
  seed: number;
  count: number;
}): SortScenario[] {
  const dice = new Dice(deriveSeed(seed, split === 'train' ? 0 : 1));
  return Array.from({ length: count }, (_, index) => ({
    id: `${split}-${index}`,
    digits: drawDigits(split, dice),
  }));
}
