import { generateText, streamText } from 'ai';
import { defineEnvironment, runGroups } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { afterwards, cutBehind, cutReply, loseReply, mute, reply, twice } from './faults.ts';
import type { Fault } from './proxy.ts';
import { faultAt, startTrainingWorld } from './training-world.ts';

const html = { 'content-type': 'text/html' };
const isChat = ({ path }: { path: string }) => path.endsWith('/chat/completions');

/** An agent that repeats a failed call once, as agents do. */
async function persistent(ask: () => Promise<string>): Promise<string> {
  try {
    return await ask();
  } catch {
    return ask();
  }
}

const environment = (isStreaming: boolean) =>
  defineEnvironment({
    name: 'persistent',
    scenario: z.object({ id: z.number() }),
    rollout: ({ model }) =>
      persistent(async () => {
        const call = { model: model.languageModel, prompt: 'toss', maxRetries: 0 };
        if (!isStreaming) return (await generateText(call)).text;
        const failures: unknown[] = [];
        const { textStream } = streamText({ ...call, onError: ({ error }) => void failures.push(error) });
        const parts: string[] = [];
        for await (const part of textStream) parts.push(part);
        if (failures.length > 0) throw failures[0];
        return parts.join('');
      }),
    rewards: { success: ({ outcome }) => Number(outcome) },
  });

const losses: [string, Fault][] = [
  ['lost', loseReply],
  ['cut in the middle', cutReply],
  ['never given', mute],
  ['replaced by a page', afterwards(reply('502 Bad Gateway', html, '<h1>502</h1>'))],
  ['cut behind its first part', cutBehind('\n\n')],
  ['given to a request that came twice', twice],
];

test.each(losses)(
  'a call whose reply is %s is recorded once, however often the agent repeats it',
  async (name, fault) => {
    await using world = await startTrainingWorld({
      knowsKeys: true,
      ...(fault === mute && { client: { timeoutMs: 1000 } }),
    });
    const model = await world.open();
    for (const isStreaming of name.includes('first part') ? [true] : [false, true]) {
      const sampled = world.engine.requests.length;
      const asked = faultAt(world.proxy, fault, isChat);
      const { groups, counts } = await runGroups({
        environment: environment(isStreaming),
        scenarios: [{ id: 1 }],
        rolloutsPerGroup: 1,
        model,
        seed: 1,
      });
      expect(counts).toMatchObject({ dispatched: 1, completed: 1 });
      const [trajectory] = groups.flatMap(({ rollouts }) => rollouts.map((rollout) => rollout.trajectory));
      expect(trajectory?.choices).toHaveLength(1);
      // The service has sampled twice, and the record has one of the two.
      expect(world.engine.requests.length - sampled).toBe(2);
      expect(asked.met()).toBe(name.includes('twice') ? 1 : 2);
    }
  },
);
