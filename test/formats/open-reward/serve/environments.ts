import { tool } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

/** What setups and clean-ups have happened, by scenario. */
export interface Journal {
  opened: number[];
  closed: number[];
}

/** A safe with a dial: tools with a state, step rewards, rewards at the end, and a limit. */
export function safe(journal: Journal = { opened: [], closed: [] }, turns = 5) {
  return defineEnvironment({
    name: 'safe',
    scenario: z.object({ code: z.number().int().min(0).max(9) }),
    limits: { turns },
    setup: ({ scenario }) => {
      journal.opened.push(scenario.code);
      return { dialled: [] as number[], isOpen: false };
    },
    system: 'Open the safe.',
    prompt: ({ scenario }) => `Its code is ${scenario.code < 5 ? 'below' : 'not below'} 5.`,
    tools: ({ scenario, state, trajectory }) => ({
      dial: tool({
        description: 'Dials a digit.',
        inputSchema: z.object({ digit: z.number().int().min(0).max(9) }),
        execute: ({ digit }) => {
          state.dialled.push(digit);
          if (digit !== scenario.code) trajectory.rewardCall(-0.1);
          state.isOpen ||= digit === scenario.code;
          return digit === scenario.code ? { open: true } : digit < scenario.code ? 'higher' : 'lower';
        },
      }),
      kick: tool({
        description: 'Kicks the safe.',
        inputSchema: z.object({}),
        execute: (): string => {
          throw new Error('That hurts.');
        },
      }),
    }),
    stop: ({ state }) => state.isOpen && 'open',
    cleanup: ({ scenario }) => void journal.closed.push(scenario.code),
    rewards: {
      success: ({ state }) => Number(state.isOpen),
      quick: { weight: 0.5, reward: ({ trajectory }) => 1 / trajectory.calls.length },
      told: {
        weight: 0.25,
        reward: ({ outcome, scenario }) => Number(outcome.text.includes(String(scenario.code))),
      },
    },
  });
}

/** A conversation in words: `observe` answers until the number is found. */
export const guess = defineEnvironment({
  name: 'guess',
  scenario: z.object({ secret: z.number() }),
  limits: { turns: 6 },
  prompt: () => 'Guess my number.',
  observe: ({ scenario, reply }) => {
    const number = Number(reply.text);
    if (number === scenario.secret) return null;
    return number < scenario.secret
      ? 'higher'
      : [{ role: 'user', content: [{ type: 'text', text: 'lower' }] }];
  },
  rewards: {
    found: ({ scenario, outcome }) => Number(Number(outcome.text) === scenario.secret) / outcome.turns,
  },
});
