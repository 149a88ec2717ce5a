import { appendFileSync } from 'node:fs';
import { tool } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

const journal = process.env.SAFE_JOURNAL;
const note = (what: string) => journal !== undefined && appendFileSync(journal, `${what}\n`);

/** What the command serves in tests. It notes each set-up and clean-up in a file. */
export default defineEnvironment({
  name: 'Safe',
  scenario: z.object({ code: z.number().int() }),
  limits: { turns: 4 },
  setup: ({ scenario }) => {
    note(`open ${scenario.code}`);
    return { dialled: [] as number[] };
  },
  system: 'Open the safe.',
  prompt: ({ scenario }) => `Its code is ${scenario.code}. 你好 🎲`,
  tools: ({ scenario, state, trajectory }) => ({
    dial: tool({
      description: 'Dials a digit.',
      inputSchema: z.object({ digit: z.number().int().min(0).max(9) }),
      execute: ({ digit }) => {
        state.dialled.push(digit);
        if (digit !== scenario.code) trajectory.rewardCall(-0.25);
        // Long, with spaces and characters of two units where pieces end.
        return digit === scenario.code ? 'open' : `wrong ${'  🎲'.repeat(3000)}`;
      },
    }),
    hit: tool({
      description: 'Hits it.',
      inputSchema: z.object({}),
      execute: (): string => {
        throw new Error('ouch');
      },
    }),
  }),
  onToolError: 'fail',
  stop: ({ state, scenario }) => state.dialled.at(-1) === scenario.code && 'open',
  cleanup: async ({ scenario }) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    note(`close ${scenario.code}`);
  },
  rewards: {
    success: ({ state, scenario }) => Number(state.dialled.at(-1) === scenario.code),
  },
});

export const scenarios = [{ code: 1 }, { code: 2 }, { code: 3 }];
export const test = [{ code: 4 }];
export const short = [{ code: 5 }];
