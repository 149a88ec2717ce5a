import type { Trajectory } from 'martingale';
import { expect } from 'vitest';
import type { Choice, Message } from '../../src/contract/index.ts';
import { render } from './fake-service.ts';

/** Sampled tokens with their prompt, as the service knows them. */
export type Sampled = { prompt: number[]; tokens: readonly number[] };

/** Each choice of a recorded trajectory, with the tokens before it in its history. */
export function trainedOn(trajectory: Trajectory): Sampled[] {
  return trajectory.histories.flatMap(({ entries }) =>
    entries.flatMap((entry, at): Sampled[] =>
      'message' in entry
        ? [{ prompt: render(entries.slice(0, at).map(asSent)), tokens: entry.token_ids ?? [] }]
        : [],
    ),
  );
}

/** Expects that the trajectory has exactly the sampled replies, each once and after its exact prompt. */
export function expectExactly(trajectory: Trajectory, sampled: readonly Sampled[]): void {
  const written = (all: readonly Sampled[]) => all.map((one) => JSON.stringify(one)).sort();
  expect(written(trainedOn(trajectory))).toEqual(written(sampled));
}

const asSent = (entry: Message | Choice): Message =>
  'message' in entry ? { role: 'assistant', token_ids: entry.token_ids } : entry;
