import { describe, expect, it } from 'vitest';
import { sortDemonstrations, sortedInPasses } from '../../../recipes/sort/demonstrations.ts';
import { question, shareInPosition, sorted } from '../../../recipes/sort/environment.ts';
import { sortScenarios, splitOf } from '../../../recipes/sort/scenarios.ts';

describe('the digits to sort', () => {
  it('are the same for a seed, and no set of digits is in both splits', () => {
    const train = sortScenarios({ split: 'train', seed: 3, count: 400 });
    const val = sortScenarios({ split: 'val', seed: 3, count: 400 });
    expect(sortScenarios({ split: 'train', seed: 3, count: 400 })).toEqual(train);
    expect(sortScenarios({ split: 'train', seed: 4, count: 400 })).not.toEqual(train);
    const sets = new Set(train.map(({ digits }) => sorted(digits)));
    expect(val.filter(({ digits }) => sets.has(sorted(digits)))).toEqual([]);
    expect(new Set(train.map(({ digits }) => splitOf(digits)))).toEqual(new Set(['train']));
  });
});

describe('the reward of an answer', () => {
  it.each([
    ['13579', 1],
    ['31579', 0.6],
    ['1357', 0.6],
    ['135790', 0.8],
    ['', 0],
    ['97531', 0.2],
  ])('%s for 97531 is %d', (answer, reward) => {
    expect(shareInPosition('97531', answer)).toBeCloseTo(reward, 12);
  });
});

describe('the demonstrations', () => {
  it('stop after one to three passes, which sort some of the digits and never lose one', () => {
    expect(sortedInPasses('54321', 1)).toBe('43215');
    expect(sortedInPasses('54321', 3)).toBe('21345');
    expect(sortedInPasses('54321', 4)).toBe('12345');
    const examples = sortDemonstrations({ seed: 1, count: 600 }).map(({ messages: [asked, answered] }) => ({
      asked: String(asked?.content),
      digits: String(answered?.content).replaceAll(' ', ''),
    }));
    const right = examples.filter(({ digits }) => digits === sorted(digits)).length;
    expect(right / examples.length).toBeGreaterThan(0.2);
    expect(right / examples.length).toBeLessThan(0.6);
    for (const { asked, digits } of examples)
      expect(sorted(asked.replaceAll(/\D/g, ''))).toBe(sorted(digits));
    expect(examples[0]?.asked).toMatch(/^sort \d \d \d \d \d$/);
    expect(question('12')).toBe('sort 1 2');
  });
});
