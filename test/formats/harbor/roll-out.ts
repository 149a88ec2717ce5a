import { runGroups } from 'martingale';
import { type HarborTasksOptions, harborTasks } from 'martingale/environments';
import { scriptedModel } from 'martingale/testing';
import { taskFolder } from './task-folder.ts';

/** The files of a task whose image has these lines after its base. */
export const dockerfile = (...lines: string[]) => ({
  'environment/Dockerfile': ['FROM localhost/small', ...lines, ''].join('\n'),
});

/** One rollout whose model runs a command, and then speaks; and what the model has read. */
export async function rollOut(files: Record<string, string>, command: string, options: HarborTasksOptions) {
  const { environment, scenarios } = await harborTasks(await taskFolder(files), options);
  let read = '';
  const model = scriptedModel(({ messages }) => {
    read = JSON.stringify(messages);
    if (messages.some(({ role }) => role === 'tool')) return { text: 'done' };
    return { toolCalls: [{ name: 'bash', arguments: { command } }] };
  });
  const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
  const [rollout] = groups.flatMap((group) => group.rollouts);
  return { rollout, read };
}
