import { expect, test } from 'vitest';
import type { Choice } from '../../src/contract/index.ts';
import { shareTexts } from '../../src/trajectory/kept-choice.ts';

const choice = (token_ids: number[], token_texts: string[]): Choice => ({
  index: 0,
  message: { role: 'assistant', content: token_texts.join('') },
  finish_reason: 'stop',
  token_ids,
  token_logprobs: token_ids.map(() => -0.5),
  token_texts,
  stop_reason: null,
});

/** Whether the choice has no list of its own for the texts of its tokens. */
const looksUp = (kept: Choice) => Object.getOwnPropertyDescriptor(kept, 'token_texts')?.get !== undefined;

test('the texts of tokens are looked up, and read and written as they were answered', () => {
  const answered = choice([7, 8, 7], [' a', 'b', ' a']);
  const kept = shareTexts(answered, 'e/p/texts:step1');
  expect(looksUp(kept)).toBe(true);
  expect(kept.token_texts).toEqual([' a', 'b', ' a']);
  expect(JSON.stringify(kept)).toBe(JSON.stringify(answered));
  expect(JSON.stringify({ ...kept })).toBe(JSON.stringify(answered));
  expect(structuredClone(kept)).toEqual(answered);
  expect(looksUp(answered)).toBe(false);
});

test('a choice keeps its list if an id has had another text, or not as many texts as ids', () => {
  const model = 'e/p/others';
  shareTexts(choice([7, 8], [' a', 'b']), `${model}:step1`);
  for (const other of [choice([9, 7], ['c', 'A']), choice([7, 8], [' a'])]) {
    const kept = shareTexts(other, `${model}:step2`);
    expect(looksUp(kept)).toBe(false);
    expect(JSON.stringify(kept)).toBe(JSON.stringify(other));
  }
  expect(looksUp(shareTexts(choice([9, 8], ['c', 'b']), `${model}:step2`))).toBe(true);
  // Another model has tokens of its own.
  const elsewhere = shareTexts(choice([7], ['A']), 'e/p/elsewhere');
  expect(looksUp(elsewhere)).toBe(true);
  expect(elsewhere.token_texts).toEqual(['A']);
});
