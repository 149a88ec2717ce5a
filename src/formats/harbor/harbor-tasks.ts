import type { ToolSet } from 'ai';
import { z } from 'zod';
import {
  defineEnvironment,
  type Environment,
  type LoopOutcome,
  type LoopSettings,
} from '../../environment/index.ts';
import type { RolloutLimits } from '../../trajectory/index.ts';
import { wholeNumberOption } from '../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { HarborError } from './errors.ts';
import type { Sandbox, SandboxKind } from './sandbox/sandbox.ts';
import { readTasks, type Task } from './task.ts';
import { bashTool } from './tools.ts';
import { copyFiles, verify } from './verify.ts';

const scenarioSchema = z.object({ task: z.string() });

/** A scenario: the name of a task's folder. */
export type HarborScenario = z.output<typeof scenarioSchema>;

export interface HarborTasksOptions {
  /** Where rollouts run, such as `localSandbox()`. */
  sandbox: SandboxKind;
  /** Instructions before those of the task. */
  system?: string;
  /** Makes the tools of a rollout. Default: `bash`, which runs a command in the sandbox. */
  tools?: (context: { sandbox: Sandbox; signal: AbortSignal }) => ToolSet | Promise<ToolSet>;
  /** As of every environment. Default: none but the task's own `agent.timeout_sec`. */
  limits?: RolloutLimits;
  /** Settings of each model call. */
  settings?: LoopSettings;
  /** Longest time of one command of `bash`, in milliseconds. Default 120,000. */
  commandTimeoutMs?: number;
  /** Characters of a command's output that the model reads. Default 10,000. */
  maxOutput?: number;
}

const names = {
  ...{ sandbox: true, system: true, tools: true, limits: true, settings: true },
  ...{ commandTimeoutMs: true, maxOutput: true },
} satisfies OptionNames<HarborTasksOptions>;

/** Task folders of Harbor as an environment. */
export interface HarborTasks {
  readonly environment: Environment<typeof scenarioSchema, LoopOutcome>;
  /** One for each task folder, by name. */
  readonly scenarios: readonly HarborScenario[];
}

/**
 * An environment of Harbor task folders: each rollout has a sandbox of its own, and its reward is what the task's tests
 * write at the end. A rollout whose sandbox or tests fail is a failed rollout.
 *
 * @param folder A folder of task folders, or one task folder.
 * @throws OptionError for an invalid option; HarborError (`task_unsupported`, `sandbox_away`)
 */
export async function harborTasks(folder: string, options: HarborTasksOptions): Promise<HarborTasks> {
  checkOptionNames('harborTasks()', options, names);
  const { sandbox: kind, commandTimeoutMs = 120_000, maxOutput = 10_000 } = options;
  wholeNumberOption('invalid_rollout_option', 'commandTimeoutMs', commandTimeoutMs, 1);
  wholeNumberOption('invalid_rollout_option', 'maxOutput', maxOutput, 1);
  const tasks = new Map((await readTasks(folder)).map((task) => [task.name, task]));
  await kind.check();
  const taskOf = (name: string): Task => {
    const task = tasks.get(name);
    if (task) return task;
    throw new HarborError('task_unsupported', `${folder} has no task "${name}"`);
  };
  const environment = defineEnvironment({
    name: 'harbor',
    scenario: scenarioSchema,
    ...(options.limits ? { limits: options.limits } : {}),
    ...(options.settings ? { settings: options.settings } : {}),
    setup: async ({ scenario, signal }) => {
      const task = taskOf(scenario.task);
      const { network_mode: mode, allow_internet: internet } = task.config.environment;
      const hasNetwork = mode === 'public' && internet !== false;
      const sandbox = await kind.create({ workdir: task.workdir, env: task.env, hasNetwork, signal });
      try {
        await copyFiles(sandbox, task, signal);
      } catch (error) {
        await sandbox.close();
        throw error;
      }
      const seconds = task.config.agent.timeout_sec ?? Number.POSITIVE_INFINITY;
      return { sandbox, task, agentEnd: performance.now() + seconds * 1000 };
    },
    ...(options.system === undefined ? {} : { system: options.system }),
    prompt: ({ state: { task } }) => task.instruction,
    tools: ({ state: { sandbox, agentEnd }, signal }) =>
      options.tools?.({ sandbox, signal }) ??
      bashTool({ sandbox, signal, agentEnd, commandTimeoutMs, maxOutput }),
    // A sandbox that fails is not the policy's fault.
    onToolError: 'fail',
    stop: ({ state: { agentEnd } }) => performance.now() >= agentEnd && 'agent_timeout',
    cleanup: ({ state: { sandbox } }) => sandbox.close(),
    rewards: {
      reward: async ({ state: { sandbox, task }, trajectory, signal }) => {
        const rewards = await verify(sandbox, task, signal);
        const { reward, ...others } = rewards;
        if (reward === undefined) return Object.values(others)[0] ?? Number.NaN;
        Object.assign(trajectory.metrics, others);
        return reward;
      },
    },
  });
  return { environment, scenarios: [...tasks.keys()].map((task) => ({ task })) };
}
