import { threadId } from 'node:worker_threads';
import { generateText } from 'ai';
import { z } from 'zod';
import { defineEnvironment } from '../../../src/index.ts';

/** The behaviour of a rollout in a worker thread. `say` calls the model and returns its reply. */
export const threadedScenario = z.object({
  does: z.enum([
    ...(['say', 'throw', 'exit', 'spin', 'hoard', 'hang', 'stray'] as const),
    ...(['returnFunction', 'burn', 'misplay'] as const),
  ]),
  id: z.number(),
});

interface Hoard {
  held: number[];
  more: Hoard | null;
}
/** Holds memory, in small pieces: a single large allocation that fails would end the whole process. */
let hoard: Hoard | null = null;

export default defineEnvironment({
  name: 'threaded',
  scenario: threadedScenario,
  rollout: async ({ scenario: { does, id }, model, trajectory, signal, seed }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: `${id}/${seed}`,
      abortSignal: signal,
    });
    trajectory.metadata.thread = threadId;
    trajectory.logs.push(`said ${text}`);
    if (does === 'throw') throw new RangeError('out of cheese');
    if (does === 'misplay') throw new SyntaxError('no such move');
    if (does === 'exit') process.exit(3);
    if (does === 'spin') for (;;);
    if (does === 'hoard') for (let at = 0.5; ; at++) hoard = { held: [at, at, at, at], more: hoard };
    if (does === 'hang') await new Promise(() => undefined);
    if (does === 'stray') {
      setImmediate(() => {
        throw new Error('nobody catches this');
      });
      await new Promise(() => undefined);
    }
    if (does === 'burn') for (const until = performance.now() + 20; performance.now() < until; );
    return { text, at: new Date(0), extra: does === 'returnFunction' ? () => text : null };
  },
  onError: ({ error }) =>
    error instanceof SyntaxError ? { text: error.message, at: new Date(0), extra: null } : undefined,
  rewards: { right: ({ outcome, scenario: { id } }) => Number(outcome.text.startsWith(`re: ${id}/`)) },
});

export const notAnEnvironment = { name: 'threaded' };
