import { expect, it } from 'vitest';
import { conversationLines } from '../../src/progress/comparison.ts';
import { paint } from '../../src/progress/text.ts';

it.each(['reasoning', 'reasoning_content'])('shows what a message has as %s before the reply', (field) => {
  const lines = conversationLines(
    'after',
    {
      messages_and_choices: [
        { role: 'user', content: 'where is 12' },
        { role: 'assistant', [field]: 'look it up', content: 'on its way' },
      ],
      reward: 1,
    },
    40,
  );
  expect(lines.map((line) => paint(line, false).trimEnd()).slice(1)).toEqual([
    'user   where is 12',
    'thinks look it up',
    'agent  on its way',
  ]);
});

it('shows one line of the instructions, which all conversations share', () => {
  const content = 'You serve the customers of a shop.\nRules: an order can be cancelled.';
  const lines = conversationLines(
    'after',
    { messages_and_choices: [{ role: 'system', content }], reward: 0 },
    40,
  );
  expect(lines.map((line) => paint(line, false).trimEnd()).slice(1)).toEqual([
    'system You serve the customers of a sho…',
  ]);
});
