import { setTimeout as pause } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';
import { z } from 'zod';
import { defineEnvironment, deriveSeed, type RolloutModel } from '../../../src/index.ts';
import { draw } from '../dice.ts';

/** How many of a hundred rollouts behave in which way. In a worker thread, some also end the thread. */
const doings = {
  ...{ asks: 66, throws: 6, throwsNothing: 1, slowTool: 8, hangs: 3, swallows: 4, asksForEver: 1 },
  ...{ leavesCall: 3, badReward: 3, hangingReward: 1, badMetric: 1, badCleanup: 2, asksNothing: 1 },
};
const deadly = { exits: 3, spins: 1, strays: 2 };

export type Doing = keyof typeof doings | keyof typeof deadly;

/** The behaviour of the rollout with this seed. */
export function doingOf(seed: number, inThread: boolean): Doing {
  const sides: Record<Doing, number> = {
    ...doings,
    ...(inThread ? deadly : { exits: 0, spins: 0, strays: 0 }),
  };
  return draw(deriveSeed(seed, 1), sides);
}

const never = () => new Promise<never>(() => undefined);
const swallow = (call: Promise<unknown>) => call.catch(() => undefined);

function ask(model: RolloutModel, signal?: AbortSignal) {
  return Promise.resolve(
    model.languageModel.doGenerate({
      prompt: [{ role: 'user', content: [{ type: 'text', text: 'what next?' }] }],
      ...(signal ? { abortSignal: signal } : {}),
    }),
  );
}

/** Rollouts that fail in one of many ways, drawn by their seed. */
export default defineEnvironment({
  name: 'failing',
  scenario: z.object({ id: z.number() }),
  cleanupTimeoutMs: 50,
  setup: ({ seed }) => doingOf(seed, !isMainThread),
  rollout: async ({ model, state: doing, signal, trajectory }) => {
    if (doing === 'asksNothing') return doing;
    if (doing === 'swallows') {
      for (let turn = 0; turn < 3; turn++) await swallow(ask(model));
      return doing;
    }
    if (doing === 'asksForEver') while (!signal.aborted) await swallow(ask(model, signal));
    await ask(model, signal);
    if (doing === 'throws') throw new Error('the agent broke');
    if (doing === 'throwsNothing') throw undefined;
    if (doing === 'hangs') await never();
    if (doing === 'slowTool') await pause(30, undefined, { signal });
    if (doing === 'leavesCall') void swallow(ask(model));
    if (doing === 'badMetric') trajectory.metrics.share = Number.NaN;
    if (doing === 'exits') process.exit(1);
    if (doing === 'spins') for (;;);
    if (doing === 'strays') {
      setImmediate(() => {
        throw new Error('stray');
      });
      await never();
    }
    return doing;
  },
  cleanup: async ({ state }) => {
    if (state === 'badCleanup') throw new Error('the sandbox is stuck');
  },
  rewards: {
    done: ({ outcome, trajectory }) => {
      if (outcome === 'badReward') throw new Error('no judge');
      return outcome === 'hangingReward' ? never() : trajectory.seed % 3;
    },
  },
});
