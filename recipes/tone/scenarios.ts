import { deriveSeed } from 'martingale';
import { z } from 'zod';
import { Dice } from '../common/dice.ts';

export const moods = ['angry', 'hurried', 'lost', 'glad'] as const;
export type Mood = (typeof moods)[number];

/** A customer's message. Agent and judge have to find its mood from the text. */
export const toneScenario = z.object({ id: z.string(), message: z.string() });

export type ToneScenario = z.infer<typeof toneScenario>;

const things = ['parcel', 'bill', 'lamp', 'phone', 'ticket', 'chair', 'coat', 'book'] as const;

const phrasings: Record<Mood, readonly string[]> = {
  angry: [
    'my @ is broken again',
    'this @ is a disgrace',
    'third time my @ is late',
    'i am fed up with this @',
  ],
  hurried: [
    'quick, where is my @',
    'no time, @ status now',
    'short answer please: my @',
    'in a rush, is my @ sent',
  ],
  lost: ['how do i use the @', 'i do not get this @', 'what do i do with my @', 'can you explain the @'],
  glad: ['i love the @', 'the @ is great', 'thank you for the @', 'so happy with my @'],
};

/** The messages of a split. Every fourth pair of thing and phrasing is for validation. */
function messages(split: 'train' | 'val'): string[] {
  return moods.flatMap((mood, moodIndex) =>
    phrasings[mood].flatMap((phrasing, phrasingIndex) =>
      things.flatMap((thing, thingIndex) => {
        const isValidation = (moodIndex + phrasingIndex + thingIndex) % 4 === 0;
        return isValidation === (split === 'val') ? [phrasing.replace('@', thing)] : [];
      }),
    ),
  );
}

/** The mood of a message, by its phrasing; undefined for an unknown phrasing. */
export function moodOf(message: string): Mood | undefined {
  return moods.find((mood) =>
    phrasings[mood].some((phrasing) => {
      const [before = '', after = ''] = phrasing.split('@');
      return message.startsWith(before) && message.endsWith(after);
    }),
  );
}

/** All messages of a split, shuffled by the seed. */
export function toneScenarios({ split, seed }: { split: 'train' | 'val'; seed: number }): ToneScenario[] {
  const dice = new Dice(deriveSeed(seed, split === 'train' ? 0 : 1));
  return messages(split)
    .map((message) => ({ message, order: dice.below(2 ** 31) }))
    .sort((a, b) => a.order - b.order)
    .map(({ message }, index) => ({ id: `${split}-${index}`, message }));
}
