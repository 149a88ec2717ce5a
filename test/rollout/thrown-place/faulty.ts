import { generateText, tool } from 'ai';
import { z } from 'zod';
import { defineEnvironment } from '../../../src/index.ts';

// Has types, which are stripped, and an enum, which is not erasable. Line and column must still be those of this file.
interface Board {
  readonly rows: string[];
}
type Missing = { board?: Board };

const readBoard = (from: unknown): number => (from as Missing & { board: Board }).board.rows.length;

export const scenario = z.object({
  throws: z.enum(['agent', 'wrapped', 'setup', 'reward', 'handler', 'tool']),
});

/** Throws at the point that the scenario selects. */
export default defineEnvironment({
  name: 'faulty',
  scenario,
  setup: ({ scenario: { throws } }) => {
    if (throws === 'setup') throw new Error('no table');
  },
  rollout: async ({ scenario: { throws }, model, signal }): Promise<string> => {
    const look = tool({
      inputSchema: z.object({}),
      execute: async (): Promise<string> => {
        if (throws === 'tool') throw new RangeError('too dark');
        return 'nothing';
      },
    });
    const { text } = await generateText({
      model: model.languageModel,
      prompt: throws === 'tool' ? 'call look' : 'well?',
      tools: { look },
      abortSignal: signal,
    });
    if (throws === 'agent') return String(readBoard({}));
    if (throws === 'handler') throw new Error('handle me');
    if (throws === 'wrapped')
      try {
        return String(readBoard({}));
      } catch (cause) {
        throw new Error('my agent failed', { cause });
      }
    return text;
  },
  onError: ({ scenario: { throws }, error }) => {
    if (throws === 'handler') throw new TypeError('cannot handle', { cause: error });
    return undefined;
  },
  rewards: {
    right: ({ scenario: { throws } }) => {
      if (throws === 'reward') return readBoard({});
      return 1;
    },
  },
});
