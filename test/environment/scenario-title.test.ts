import { defineEnvironment } from 'martingale';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { titleOfScenario } from '../../src/environment/index.ts';

describe('the title of a scenario without the option', () => {
  it.for([
    ['a text is its own title', '  Where is\nmy order? ', 'Where is my order?'],
    [
      'the first text of several words counts',
      { id: 'train-12', message: 'cancel order 4204' },
      'cancel order 4204',
    ],
    ['also deeper inside', { id: 7, task: { name: 't', goal: 'book a room' } }, 'book a room'],
    ['a single word is better than JSON', { word: 'apple', size: 3 }, 'apple'],
    [
      'of messages, the first of the user',
      {
        system: 'You are a clerk.',
        messages: [
          { role: 'system', content: 'Be short.' },
          { role: 'user', content: [{ type: 'text', text: 'Where is my order?' }] },
        ],
      },
      'Where is my order?',
    ],
    ['without text, its JSON', { a: 3, b: [4] }, '{"a":3,"b":[4]}'],
    ['nothing at all', undefined, 'undefined'],
  ] as const)('%s', ([, scenario, title]) => {
    expect(titleOfScenario(scenario)).toBe(title);
  });

  it('is one line of at most 200 characters', () => {
    expect(titleOfScenario({ text: 'word '.repeat(1000) })).toHaveLength(201);
  });
});

describe('the option `title`', () => {
  const withTitle = (title: (scenario: { id: number }) => string) =>
    defineEnvironment({
      name: 'titled',
      scenario: z.object({ id: z.number() }),
      title,
      rollout: () => 'done',
      rewards: { one: () => 1 },
    });

  it('gives a scenario its title', () => {
    expect(withTitle(({ id }) => `Ticket ${id}`).titleOf({ id: 4 })).toBe('Ticket 4');
  });

  it('says that it threw instead of ending a rollout', () => {
    const broken = withTitle(() => {
      throw new Error('no such ticket');
    });
    expect(broken.titleOf({ id: 4 })).toContain('`title` threw: no such ticket');
  });

  it('is refused if it is no function', () => {
    // @ts-expect-error a text is no function
    expect(() => withTitle('Ticket')).toThrow('`title` is "Ticket". Give a function of a scenario');
  });
});
