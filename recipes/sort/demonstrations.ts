import { deriveSeed, type SftExample } from 'martingale';
import { Dice } from '../common/dice.ts';
import { question, spaced } from './environment.ts';
import { drawDigits } from './scenarios.ts';

/** One pass of bubble sort. */
function pass(digits: readonly string[]): string[] {
  const passed = [...digits];
  for (let at = 0; at + 1 < passed.length; at++) {
    const [left = '', right = ''] = passed.slice(at, at + 2);
    if (left > right) passed.splice(at, 2, right, left);
  }
  return passed;
}

/** The digits after some passes of bubble sort. Sorting five digits takes up to four. */
export function sortedInPasses(digits: string, passes: number): string {
  let written = [...digits];
  for (let done = 0; done < passes; done++) written = pass(written);
  return written.join('');
}

/**
 * Conversations whose answers stop after one, two or three passes. They teach the format and part of the skill;
 * reinforcement learning has to find the rest.
 */
export function sortDemonstrations({ seed, count }: { seed: number; count: number }): SftExample[] {
  const dice = new Dice(deriveSeed(seed, 2));
  return Array.from({ length: count }, () => {
    const digits = drawDigits('train', dice);
    return {
      messages: [
        { role: 'user', content: question(digits) },
        { role: 'assistant', content: spaced(sortedInPasses(digits, 1 + dice.below(3))) },
      ],
    };
  });
}
