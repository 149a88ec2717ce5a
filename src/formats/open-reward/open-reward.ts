import type { ModelMessage, ToolSet } from 'ai';
import { z } from 'zod';
import {
  defineEnvironment,
  type Environment,
  type LoopOutcome,
  type LoopSettings,
} from '../../environment/index.ts';
import type { RolloutLimits, Trajectory } from '../../trajectory/index.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { systemOf, toModelMessages, toToolOutput } from './model-messages.ts';
import { environmentsSchema, splitsSchema, taskCountSchema } from './protocol.ts';
import { OpenRewardError, OpenRewardServer } from './server.ts';
import { OpenRewardSession, type OpenRewardTask, parse } from './session.ts';

const scenarioSchema = z.object({ split: z.string(), index: z.int().nonnegative() });

export interface OpenRewardOptions {
  /** Name of the environment. Default: the first one of the server. */
  environment?: string;
  /** Sent as a bearer token, to servers that know keys. Default: the environment variable `OPENREWARD_API_KEY`, or none. */
  apiKey?: string;
  /** What the environment needs, by name, such as a key of a judge. It is sent to the server only. */
  secrets?: Readonly<Record<string, string>>;
  /** Instructions, put before the environment's own. */
  system?: string;
  /** As of every environment. Default: the environment decides when an episode ends. */
  limits?: RolloutLimits;
  /** Settings of each model call. */
  settings?: LoopSettings;
  /**
   * How the rewards of single calls count: the reply that made them and those before it are credited, discounted for
   * each reply between. Default 1: with the sum of what came after. `null`: every reply has the reward of the whole.
   */
  discount?: number | null;
  /** Ends the waits of the call itself, with its reason. Default: none. */
  signal?: AbortSignal;
}

const names = {
  environment: 'text',
  apiKey: 'text',
  secrets: true,
  system: 'text',
  limits: true,
  settings: true,
  discount: true,
  signal: 'signal',
} satisfies OptionNames<OpenRewardOptions>;

/** An environment on a server of the Open Reward Standard. */
export interface OpenReward {
  readonly environment: Environment<typeof scenarioSchema, LoopOutcome>;
  /** The names of its splits, such as `train` and `test`. */
  readonly splits: readonly string[];
  /** The tasks of a split, as scenarios. @throws OpenRewardError (`bad_option`) for a split that is not there. */
  scenarios(split: string, options?: { signal?: AbortSignal }): Promise<OpenRewardTask[]>;
  close(): Promise<void>;
}

/**
 * An environment of the Open Reward Standard: its tasks are scenarios, its prompt begins the conversation, its tools
 * are the agent's, and the reward of a tool call goes to the reply that made it. A rollout whose environment or server
 * fails is a failed rollout.
 *
 *     const math = await openReward('http://127.0.0.1:8080');
 *     await train({ environment: math.environment, scenarios: await math.scenarios('train'), ... });
 *
 * @throws OpenRewardError (`environment_server_away`, `environment_server_refused`, `bad_option`)
 */
export async function openReward(url: string, options: OpenRewardOptions = {}): Promise<OpenReward> {
  checkOptionNames('openReward()', options, names);
  const { apiKey = process.env.OPENREWARD_API_KEY, discount = 1 } = options;
  options.signal?.throwIfAborted();
  const server = new OpenRewardServer({ url, apiKey });
  const { name, splits } = await readServer(server, options).catch(async (error: unknown) => {
    await server.close();
    throw error;
  });
  const environment = defineEnvironment({
    name,
    scenario: scenarioSchema,
    ...(options.limits ? { limits: options.limits } : {}),
    ...(options.settings ? { settings: options.settings } : {}),
    ...(discount === null ? {} : { credit: { discount } }),
    setup: async ({ scenario, signal }) => ({
      session: await OpenRewardSession.open({
        ...{ server, environment: name, task: scenario, signal },
        secrets: options.secrets ?? {},
      }),
    }),
    system: ({ state: { session } }) =>
      [options.system ?? '', systemOf(session.messages)].filter((text) => text !== '').join('\n\n'),
    prompt: ({ state: { session } }) => toModelMessages(session.messages),
    tools: async ({ state: { session }, trajectory }) => toolsOf(session, trajectory),
    // An environment that throws is not the policy's fault.
    onToolError: 'fail',
    stop: ({ state: { session } }) => session.isFinished && 'environment_finished',
    observe: async ({ state: { session }, reply, trajectory, signal }) => {
      const { tools, terminal_tool: terminal } = session.tools;
      if (!terminal) return null;
      const input = terminal.arg ? { [terminal.arg]: reply.text } : {};
      const result = await session.call(terminal.name, input, signal);
      record(trajectory, result);
      // Words end an episode, unless the environment also lists the tool as one that can be called again.
      const goesOn = !session.isFinished && tools.some(({ name: listed }) => listed === terminal.name);
      return goesOn ? toUserMessages(result) : null;
    },
    cleanup: ({ state: { session }, signal }) => session.close(signal),
    rewards: { finished: { weight: 0, reward: ({ state: { session } }) => Number(session.isFinished) } },
  });
  return {
    environment,
    splits,
    async scenarios(split, { signal: stop } = {}) {
      if (!splits.includes(split))
        throw new OpenRewardError(
          'bad_option',
          `${name} has no split "${split}". It has ${splits.join(', ')}.`,
        );
      const path = `/${name}/num_tasks`;
      const counted = await server.json('POST', path, { body: { split }, isHarmless: true, stop });
      const { num_tasks: count } = parse(taskCountSchema, path, counted, url);
      return Array.from({ length: count }, (_, index) => ({ split, index }));
    },
    close: () => server.close(),
  };
}

/** The environment's name on the server, and its splits. */
async function readServer(
  server: OpenRewardServer,
  { environment, signal: stop }: OpenRewardOptions,
): Promise<{ name: string; splits: string[] }> {
  const { url } = server;
  const listPath = '/list_environments';
  const environments = parse(environmentsSchema, listPath, await server.json('GET', listPath, { stop }), url);
  const name = environment ?? environments[0];
  if (name === undefined || !environments.includes(name))
    throw new OpenRewardError(
      'bad_option',
      `\`environment\`: the server ${url} has no environment "${name}". It has ${environments.join(', ') || 'none'}.`,
    );
  const path = `/${name}/splits`;
  const splits = parse(splitsSchema, path, await server.json('GET', path, { stop }), url);
  return { name, splits: splits.map((split) => split.name) };
}

type CallOf = Awaited<ReturnType<OpenRewardSession['call']>>;

/** What the environment answers to words. */
const toUserMessages = (result: CallOf): ModelMessage[] =>
  toModelMessages([
    { role: 'user', blocks: result.ok ? result.output.blocks : [{ type: 'text', text: result.error }] },
  ]);

/** Adds the reward of a call to the reply that made it. */
function record(trajectory: Trajectory, result: CallOf): void {
  if (result.ok && typeof result.output.reward === 'number') trajectory.rewardCall(result.output.reward);
}

/** The environment's tools for the agent. What a wrong call gets is an answer to the model, not an error. */
async function toolsOf(session: OpenRewardSession, trajectory: Trajectory): Promise<ToolSet> {
  const { jsonSchema, tool } = await import('ai');
  return Object.fromEntries(
    // The model does not call the tool that takes the words of a reply.
    session.tools.tools
      .filter(({ name }) => name !== session.tools.terminal_tool?.name)
      .map(({ name, description, input_schema: schema }) => [
        name,
        tool({
          description,
          inputSchema: jsonSchema<Record<string, unknown>>(schema ?? { type: 'object', properties: {} }),
          execute: async (input, { abortSignal }) => {
            if (session.isFinished)
              return { blocks: [{ type: 'text' as const, text: 'The episode is finished.' }] };
            const signal = abortSignal ?? AbortSignal.timeout(600_000);
            const result = await session.call(name, input, signal);
            record(trajectory, result);
            return result.ok
              ? { blocks: result.output.blocks }
              : { blocks: [{ type: 'text' as const, text: result.error }] };
          },
          toModelOutput: ({ output: { blocks } }) => toToolOutput(blocks),
        }),
      ]),
  );
}
