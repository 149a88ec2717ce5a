import { tool } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

/** Number of doors. The prize is behind one of them. */
export const doors = 7;
/** Number of doors that the agent may open: just enough for binary search. */
export const looks = 3;

export const searchScenario = z.object({ prize: z.number().int().min(1).max(doors) });

const names = Array.from({ length: doors }, (_, index) => String(index + 1));

/** Where the prize is, seen from a door. */
export function lookBehind(door: number, prize: number): 'here' | 'higher' | 'lower' {
  if (door === prize) return 'here';
  return door < prize ? 'higher' : 'lower';
}

/** An environment of pieces: a prompt, a tool and a stop condition. martingale runs the conversation. */
export const search = defineEnvironment({
  name: 'search',
  scenario: searchScenario,
  limits: { turns: looks },
  setup: () => ({ opened: [] as number[] }),
  prompt: () => 'find it',
  tools: ({ scenario, state }) => ({
    open: tool({
      description: 'Open a door',
      inputSchema: z.object({ door: z.enum(names) }),
      execute: ({ door }) => {
        state.opened.push(Number(door));
        return lookBehind(Number(door), scenario.prize);
      },
    }),
  }),
  settings: {
    toolChoice: 'required',
    // Without this the policy learns to open five doors in one reply.
    providerOptions: { martingale: { parallel_tool_calls: false } },
  },
  stop: ({ scenario, state }) => (state.opened.includes(scenario.prize) ? 'found' : false),
  rewards: {
    success: ({ scenario, state }) => Number(state.opened.includes(scenario.prize)),
    looks: { weight: 0, reward: ({ state }) => state.opened.length },
  },
});

/** One scenario for each door with the prize. */
export const searchScenarios = names.map((name) => ({ prize: Number(name) }));
