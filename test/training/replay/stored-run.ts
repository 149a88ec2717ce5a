import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText, isStepCount, ToolLoopAgent, tool } from 'ai';
import { type Environment, ModelHandle, type RolloutContext, type RolloutGroup, runGroups } from 'martingale';
import { toGroupRecord } from 'martingale/records';
import { z } from 'zod';
import type { startFakeService } from '../../model/fake-service.ts';

type Service = Awaited<ReturnType<typeof startFakeService>>;

export const scenario = z.object({ word: z.string(), streamed: z.boolean().default(false) });
export const words = [{ word: 'tea' }, { word: 'ink', streamed: true }, { word: 'oak' }];

/** Calls a tool, whose answer ends with `note`, and asks two identical questions in parallel. */
export function useTools(note: () => string = () => '') {
  return async ({
    scenario: { word, streamed },
    model,
    trajectory,
    seed,
  }: RolloutContext<z.output<typeof scenario>>): Promise<{ text: string; asides: string[] }> => {
    const agent = new ToolLoopAgent({
      model: model.languageModel,
      instructions: 'You look things up.',
      tools: {
        look: tool({
          inputSchema: z.object({ at: z.number() }),
          execute: ({ at }) => `${word} at ${at}${note()}`,
        }),
      },
      stopWhen: isStepCount(4),
    });
    const aside = async () =>
      (await generateText({ model: model.languageModel, prompt: `again, ${word}` })).text;
    const [text, ...asides] = await Promise.all([
      streamed
        ? agent.stream({ prompt: 'look it up' }).then((reply) => reply.text)
        : agent.generate({ prompt: 'look it up' }).then((reply) => reply.text),
      aside(),
      aside(),
    ]);
    trajectory.logs.push(`drew ${seed % 7}`);
    trajectory.metrics.asides = asides.length;
    if (seed % 5 === 0) throw new RangeError('the shelf is empty');
    return { text, asides };
  };
}

/** The policy for this agent: first a tool call, then text that depends on the seed. */
export const policy: Parameters<typeof startFakeService>[0]['policy'] = ({ messages, seed }) =>
  messages.at(-1)?.role === 'user' && messages.at(-1)?.content === 'look it up'
    ? { toolCalls: [{ name: 'look', arguments: `{"at":${(seed ?? 0) % 10}}` }] }
    : { text: `${seed} ${JSON.stringify(messages.at(-1)?.content)}` };

/** Runs groups and writes them as step 0 of a run. */
export async function storeRun(
  path: string,
  service: Service,
  environment: Environment,
  scenarios: z.input<typeof scenario>[] = words,
): Promise<RolloutGroup[]> {
  const model = new ModelHandle({ client: service.client, name: 'e/p/n:step4' });
  const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 6, model, seed: 3 });
  await writeRun(path, environment.name, groups);
  return groups;
}

/** A run directory with groups as its step 0. */
export async function writeRun(
  path: string,
  environment: string,
  groups: readonly RolloutGroup[],
): Promise<void> {
  await mkdir(join(path, 'trajectories'), { recursive: true });
  await writeFile(join(path, 'config.json'), JSON.stringify({ environment }));
  await writeFile(
    join(path, 'trajectories/step-0000.jsonl'),
    groups.map((group) => `${JSON.stringify(toGroupRecord(group))}\n`).join(''),
  );
}
