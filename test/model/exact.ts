import type { Trajectory } from 'martingale';
import { expect } from 'vitest';
import type { Choice, Message } from '../../src/contract/index.ts';
import { render } from './fake-service.ts';

/** What was sampled, by the prompt it was sampled after: what a service knows for certain. */
export type Sampled = { prompt: number[]; tokens: readonly number[] };

/** Of a recorded trajectory: each choice with the tokens that stand before it in its history. */
export function trainedOn(trajectory: Trajectory): Sampled[] {
  return trajectory.histories.flatMap(({ entries }) =>
    entries.flatMap((entry, at): Sampled[] =>
      'message' in entry
        ? [{ prompt: render(entries.slice(0, at).map(asSent)), tokens: entry.token_ids ?? [] }]
        : [],
    ),
  );
}

/** What is trained on is exactly what was sampled, each once, after exactly the prompt that it was sampled after. */
export function expectExactly(trajectory: Trajectory, sampled: readonly Sampled[]): void {
  const written = (all: readonly Sampled[]) => all.map((one) => JSON.stringify(one)).sort();
  expect(written(trainedOn(trajectory))).toEqual(written(sampled));
}

const asSent = (entry: Message | Choice): Message =>
  'message' in entry ? { role: 'assistant', token_ids: entry.token_ids } : entry;
