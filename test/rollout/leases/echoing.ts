import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';
import { describeWorker } from './where.ts';

/** Each rollout asks the model `turns` times and then does what its scenario says. */
export default defineEnvironment({
  name: 'echoing',
  scenario: z.object({
    id: z.number(),
    does: z.enum(['say', 'throw', 'exit', 'hang', 'spin', 'returnFunction']).default('say'),
    turns: z.number().default(1),
    nested: z.unknown().optional(),
    at: z.date().default(new Date(0)),
  }),
  rollout: async ({ scenario: { id, does, turns, at }, model, trajectory, signal, seed }) => {
    let text = '';
    for (let turn = 0; turn < turns; turn++)
      ({ text } = await generateText({
        model: model.languageModel,
        prompt: `${id}/${seed}/${turn}`,
        abortSignal: signal,
      }));
    trajectory.logs.push(describeWorker());
    if (does === 'throw') throw new RangeError('out of cheese');
    if (does === 'exit') process.exit(3);
    if (does === 'hang') await new Promise(() => undefined);
    if (does === 'spin') for (const until = performance.now() + 3000; performance.now() < until; );
    return { text, at, seen: new Set([id]), extra: does === 'returnFunction' ? () => text : null };
  },
  rewards: {
    right: ({ outcome, scenario: { id } }) =>
      Number(outcome.text.startsWith(`re: ${id}/`) && outcome.seen.has(id)),
  },
  groupRewards: { rank: ({ members }) => members.map(({ outcome }) => outcome.seen.size) },
  cleanupTimeoutMs: 2000,
});

export const notAnEnvironment = { name: 'echoing' };
