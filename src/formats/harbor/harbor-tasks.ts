import type { ToolSet } from 'ai';
import { z } from 'zod';
import { defineEnvironment, type Environment, type LoopSettings } from '../../environment/index.ts';
import type { RolloutModel } from '../../model/index.ts';
import type { RolloutLimits, Trajectory } from '../../trajectory/index.ts';
import { Deadline, untilAborted } from '../../util/deadline.ts';
import { OptionError, wholeNumberOption } from '../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { HarborError } from './errors.ts';
import type { Sandbox, SandboxKind } from './sandbox/sandbox.ts';
import { asUser, untilEnd, withFiles } from './sandbox/with-files.ts';
import { readTasks, type Task } from './task.ts';
import { bashTool } from './tools.ts';
import { copyFiles, verify } from './verify.ts';

const scenarioSchema = z.object({ task: z.string() });

/** A scenario: the name of a task's folder. */
export type HarborScenario = z.output<typeof scenarioSchema>;

/** What an agent of yours gets for a task. */
export interface HarborAgentContext {
  /** `model.languageModel` for the AI SDK, `model.endpoint()` for everything else. */
  model: RolloutModel;
  sandbox: Sandbox;
  /** The text of `instruction.md`. */
  instruction: string;
  /** Name of the task's folder. */
  task: string;
  trajectory: Trajectory;
  /** Aborts when the task's `agent.timeout_sec` is over; then the tests run. Aborts too when the rollout ends. */
  signal: AbortSignal;
  seed: number;
}

export interface HarborTasksOptions {
  /** Where rollouts run, such as `localSandbox()` or `dockerSandbox()`. */
  sandbox: SandboxKind;
  /** Your agent, in place of a model with the tool `bash`. The tests look at the sandbox that it leaves. */
  agent?: (context: HarborAgentContext) => unknown;
  /** Instructions before the task's own. */
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
  /**
   * Names of variables of this process that tasks may ask for, as `KEY = "${KEY}"` in `task.toml`. The agent can read what
   * is in `environment.env`. Default: none.
   */
  variables?: readonly string[];
}

const names = {
  ...{ sandbox: true, agent: true, system: true, tools: true, limits: true, settings: true },
  ...{ commandTimeoutMs: true, maxOutput: true, variables: true },
} satisfies OptionNames<HarborTasksOptions>;

/** Task folders of Harbor as an environment. */
export interface HarborTasks {
  /** The outcome of an environment in pieces, or what the `agent` returned. */
  readonly environment: Environment<typeof scenarioSchema, unknown>;
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
  const { agent } = options;
  if (agent)
    for (const name of ['system', 'tools', 'settings', 'commandTimeoutMs', 'maxOutput'] as const)
      if (options[name] !== undefined)
        throw new OptionError('invalid_rollout_option', `\`${name}\` is for rollouts without an \`agent\`.`, {
          option: name,
        });
  const { sandbox: kind, commandTimeoutMs = 120_000, maxOutput = 10_000, variables = [] } = options;
  wholeNumberOption('invalid_rollout_option', 'commandTimeoutMs', commandTimeoutMs, 1);
  wholeNumberOption('invalid_rollout_option', 'maxOutput', maxOutput, 1);
  const read = await readTasks(folder, { buildsImages: kind.buildsImages ?? false, variables });
  const tasks = new Map(read.map((task) => [task.name, task]));
  await kind.check();
  const taskOf = (name: string): Task => {
    const task = tasks.get(name);
    if (task) return task;
    throw new HarborError('task_unsupported', `${folder} has no task "${name}".`);
  };
  const shared = {
    name: 'harbor',
    scenario: scenarioSchema,
    ...(options.limits ? { limits: options.limits } : {}),
    setup: ({ scenario, signal }: { scenario: HarborScenario; signal: AbortSignal }) =>
      openTask(taskOf(scenario.task), kind, signal),
    cleanup: ({ state: { sandbox } }: { state: OpenTask }) => sandbox.close(),
    rewards: { reward: rewardOf },
  };
  const environment = agent
    ? defineEnvironment({
        ...shared,
        rollout: ({ state, ...context }) => runOwnAgent(agent, state, context),
      })
    : defineEnvironment({
        ...shared,
        ...(options.settings ? { settings: options.settings } : {}),
        ...(options.system === undefined ? {} : { system: options.system }),
        prompt: ({ state: { task } }) => task.instruction,
        tools: ({ state: { sandbox, agentEnd }, signal }) =>
          options.tools?.({ sandbox, signal }) ??
          bashTool({ sandbox, signal, agentEnd, commandTimeoutMs, maxOutput }),
        // A sandbox that fails is not the policy's fault.
        onToolError: 'fail',
        stop: ({ state: { agentEnd } }) => performance.now() >= agentEnd && 'agent_timeout',
      });
  return { environment, scenarios: [...tasks.keys()].map((task) => ({ task })) };
}

/** A task in a rollout. */
interface OpenTask {
  task: Task;
  /** The sandbox as the agent uses it, until `endAgent`. */
  sandbox: Sandbox;
  /** Kills what the agent still runs. Then the tests have the sandbox, as root. */
  endAgent(): Promise<Sandbox>;
  /** When the agent's time is over, as of `performance.now()`. */
  agentEnd: number;
}

async function openTask(task: Task, kind: SandboxKind, signal: AbortSignal): Promise<OpenTask> {
  const { workdir, env, image } = task;
  const hasNetwork = task.config.environment.network_mode === 'public';
  const copies = task.copies.map(({ to }) => to).filter((to) => to !== '.');
  const sandbox = withFiles(await kind.create({ workdir, copies, image, env, hasNetwork, signal }));
  const root = asUser(sandbox, 'root');
  try {
    await copyFiles(root, task, signal);
  } catch (error) {
    await sandbox.close();
    throw error;
  }
  const { timeout_sec: seconds = Number.POSITIVE_INFINITY, user } = task.config.agent;
  const agents = untilEnd(asUser(sandbox, user));
  return {
    sandbox: agents.sandbox,
    task,
    agentEnd: performance.now() + seconds * 1000,
    async endAgent() {
      await agents.end();
      sandbox.endAgent?.();
      return root;
    },
  };
}

async function rewardOf({
  state,
  trajectory,
  signal,
}: {
  state: OpenTask;
  trajectory: Trajectory;
  signal: AbortSignal;
}): Promise<number> {
  const { reward, ...others } = await verify(await state.endAgent(), state.task, signal);
  if (reward === undefined) return Object.values(others)[0] ?? Number.NaN;
  Object.assign(trajectory.metrics, others);
  return reward;
}

/** Runs the agent until it returns or its time is over. After that the tests have its sandbox. */
async function runOwnAgent(
  agent: NonNullable<HarborTasksOptions['agent']>,
  { sandbox, task, agentEnd, endAgent }: OpenTask,
  context: Pick<HarborAgentContext, 'model' | 'trajectory' | 'signal' | 'seed'>,
): Promise<unknown> {
  const { model, trajectory, seed } = context;
  const given = { model, trajectory, seed, sandbox, instruction: task.instruction, task: task.name };
  const deadline = new Deadline(agentEnd - performance.now(), context.signal);
  const { signal } = deadline;
  try {
    return await untilAborted((async () => agent({ ...given, signal }))(), signal);
  } catch (error) {
    if (!deadline.expired) throw error;
    trajectory.stopReason = 'agent_timeout';
    return undefined;
  } finally {
    deadline.clear();
    await endAgent();
  }
}
