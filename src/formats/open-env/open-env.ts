import type { ModelMessage, ToolSet } from 'ai';
import { Agent } from 'undici';
import { z } from 'zod';
import {
  defineEnvironment,
  type Environment,
  type LoopOutcome,
  type LoopSettings,
  type Reply,
} from '../../environment/index.ts';
import type { RolloutLimits } from '../../trajectory/index.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { actionChecker } from './action-check.ts';
import { Episode } from './episode.ts';
import { OpenEnvError } from './error.ts';
import {
  environmentsSchema,
  metadataSchema,
  type Observed,
  splitsSchema,
  taskCountSchema,
} from './protocol.ts';
import { readHttp, type ServerAddress } from './server.ts';
import { listTools, toolsOf } from './tools.ts';

const scenarioSchema = z.object({
  /** What the environment draws from. All rollouts of a group have the same. */
  seed: z.int().nonnegative(),
  split: z.string().optional(),
  index: z.int().nonnegative().optional(),
});

export type OpenEnvScenario = z.output<typeof scenarioSchema>;

/** What the environment shows, with its fields as the server's `/schema` describes them. */
export interface OpenEnvView<Observation> extends Omit<Observed, 'observation'> {
  observation: Observation;
  /** Number of steps taken. */
  steps: number;
}

export interface OpenEnvOptions<Observation, Action extends object> {
  /**
   * Turns an observation of the environment into a message, after the reset and after each step. In environments with tools of
   * the Model Context Protocol, it only begins the conversation and may be a text. Default there: the description of
   * the environment, if it has one of its own.
   */
  prompt?: string | ((view: OpenEnvView<Observation>) => string | ModelMessage[]);
  /**
   * Turns a reply into an action, or returns null if the reply contains no action. Leave it out for environments with tools of the Model
   * Context Protocol: their tools are the agent's.
   */
  action?: (reply: Reply) => Action | null;
  /** What the model reads after a reply for which `action` returned null. Default "That is no valid action." */
  invalid?: string;
  /** Fields of the reset beside seed, split and index. */
  reset?: Readonly<Record<string, unknown>>;
  /** Name of the environment, for its tasks, where the server has the Task API. Default: the server's first. */
  environment?: string;
  /** Sent as a bearer token. Default: none. */
  apiKey?: string;
  system?: string;
  limits?: RolloutLimits;
  settings?: LoopSettings;
  /** How the rewards of steps count, as in `openReward`. Default 1; null: every reply has the reward of the whole. */
  discount?: number | null;
  /** Longest wait for the answer to a step, in milliseconds. Default 300,000. */
  stepTimeoutMs?: number;
  /**
   * How long a server that is not up, or that restarts, is waited for: by `openEnv`, and by each rollout before its
   * episode begins. Default 30,000; 0: it is tried once.
   */
  connectTimeoutMs?: number;
  /** Ends the waits of the call itself, with its reason. Default: none. */
  signal?: AbortSignal;
}

const names = {
  prompt: true,
  action: 'function',
  invalid: 'text',
  reset: true,
  environment: 'text',
  apiKey: 'text',
  system: 'text',
  limits: true,
  settings: true,
  discount: true,
  stepTimeoutMs: 'numeric',
  connectTimeoutMs: 'numeric',
  signal: 'signal',
} satisfies OptionNames<OpenEnvOptions<unknown, object>>;

/** An environment on a server of OpenEnv. */
export interface OpenEnv {
  readonly environment: Environment<typeof scenarioSchema, LoopOutcome>;
  /** Names of the splits of its tasks; empty if the server has no tasks. */
  readonly splits: readonly string[];
  /**
   * The tasks of a split, or this many scenarios that differ by their seeds.
   * @throws OpenEnvError (`bad_option`) for a split that is not there.
   */
  scenarios(which: string | number, options?: { signal?: AbortSignal }): Promise<OpenEnvScenario[]>;
  close(): Promise<void>;
}

/** Stop reason of a rollout that its environment ended. */
const doneReason = 'environment_done';

/**
 * An environment of OpenEnv. Each rollout is an episode on a WebSocket of its own. The reward of a step goes to the
 * reply that took it. A rollout whose environment or server fails is a failed rollout.
 *
 *     const tools = await openEnv('http://127.0.0.1:8000');
 *     const game = await openEnv('http://127.0.0.1:8001', {
 *       prompt: ({ observation }: OpenEnvView<{ text: string }>) => observation.text,
 *       action: ({ text }) => ({ guess: text }),
 *     });
 *
 * @throws OpenEnvError (`environment_server_away`, `environment_server_refused`, `bad_option`)
 */
export async function openEnv<Observation = Record<string, unknown>, Action extends object = object>(
  url: string,
  options: OpenEnvOptions<Observation, Action> = {},
): Promise<OpenEnv> {
  checkOptionNames('openEnv()', options, names);
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw badOption(`\`url\` is ${url}. Pass an http or https address.`);
  const { apiKey, discount = 1, stepTimeoutMs = 300_000, connectTimeoutMs = 30_000 } = options;
  const { invalid = 'That is no valid action.', action } = options;
  if (!(stepTimeoutMs > 0))
    throw badOption(`\`stepTimeoutMs\` is ${stepTimeoutMs}. Give milliseconds above 0.`);
  if (!(connectTimeoutMs >= 0))
    throw badOption(`\`connectTimeoutMs\` is ${connectTimeoutMs}. Give milliseconds from 0.`);
  options.signal?.throwIfAborted();
  const server: ServerAddress = {
    url: url.replace(/\/+$/, ''),
    dispatcher: new Agent(),
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    connectTimeoutMs,
  };
  const { metadata, named, splitNames, checkAction, opening } = await readServer(server, options).catch(
    async (error: unknown) => {
      await server.dispatcher.close();
      throw error;
    },
  );
  const say = (view: OpenEnvView<Observation>) => (typeof opening === 'function' ? opening(view) : opening);

  const environment = defineEnvironment({
    name: named ?? metadata?.name ?? 'openenv',
    scenario: scenarioSchema,
    ...(options.limits ? { limits: options.limits } : {}),
    ...(options.settings ? { settings: options.settings } : {}),
    ...(discount === null ? {} : { credit: { discount } }),
    setup: async ({ scenario, signal }) => {
      const reset = { ...options.reset, ...scenario };
      return {
        episode: await Episode.open({ ...server, reset, stepTimeoutMs, signal }),
        steps: 0,
      };
    },
    system: options.system ?? '',
    // The cast trusts the caller's type: the server describes it, and cannot be asked at compile time.
    prompt: ({ state: { episode } }) => say({ ...episode.first, steps: 0 } as OpenEnvView<Observation>),
    tools: async ({ state: { episode }, trajectory, signal }): Promise<ToolSet> =>
      action ? {} : toolsOf(episode, await listTools(episode, signal), trajectory),
    onToolError: 'fail',
    stop: ({ state: { episode } }) => episode.isDone && doneReason,
    observe: async ({ state, reply, trajectory, signal }) => {
      if (!action) return null;
      const taken = action(reply);
      if (taken === null) return invalid;
      checkAction?.(taken);
      const seen = await state.episode.step(taken, signal);
      state.steps++;
      if (seen.reward !== null) trajectory.rewardCall(seen.reward);
      if (!seen.done) return say({ ...seen, steps: state.steps } as OpenEnvView<Observation>);
      trajectory.stopReason = doneReason;
      return null;
    },
    cleanup: ({ state: { episode } }) => episode.close(),
    rewards: { done: { weight: 0, reward: ({ state: { episode } }) => Number(episode.isDone) } },
  });
  return {
    environment,
    splits: splitNames,
    async scenarios(which, { signal } = {}) {
      if (typeof which === 'number') {
        if (!(Number.isSafeInteger(which) && which > 0))
          throw badOption(
            `\`scenarios(${which})\` is not known. Pass a whole number of seeds above 0, or the name of a split.`,
          );
        return Array.from({ length: which }, (_, seed) => ({ seed }));
      }
      if (!splitNames.includes(which) || named === undefined)
        throw badOption(
          `${environment.name} has no split "${which}". It has ${splitNames.join(', ') || 'none: pass a number of seeds'}.`,
        );
      const counted = await readHttp(server, {
        path: `/${encodeURIComponent(named)}/num_tasks`,
        schema: taskCountSchema,
        body: { split: which },
        signal,
      });
      if (!counted)
        throw new OpenEnvError(
          'environment_server_refused',
          `The environment server ${url} does not say how many tasks "${which}" has. Pass a number of seeds.`,
        );
      return Array.from({ length: counted.num_tasks }, (_, index) => ({
        seed: index,
        split: which,
        index,
      }));
    },
    close: () => server.dispatcher.close(),
  };
}

/** What the server says of its environment, and what begins the conversations. */
async function readServer<Observation, Action extends object>(
  server: ServerAddress,
  { environment, prompt, action, signal }: OpenEnvOptions<Observation, Action>,
) {
  const { url } = server;
  const metadata = await readHttp(server, { path: '/metadata', schema: metadataSchema, signal });
  const listing = { path: '/list_environments', schema: environmentsSchema, signal };
  const environments = await readHttp(server, listing);
  const named = environment ?? environments?.[0];
  if (environment !== undefined && !environments)
    throw badOption(
      `\`environment\`: the server ${url} has no Task API, so its environment has no name. Leave it out.`,
    );
  if (environment !== undefined && environments && !environments.includes(environment))
    throw badOption(
      `\`environment\`: the server ${url} has no environment "${named}". It has ${environments.join(', ') || 'none'}.`,
    );
  const path = `/${encodeURIComponent(named ?? '')}/splits`;
  const splits = named === undefined ? null : await readHttp(server, { path, schema: splitsSchema, signal });
  const splitNames = (splits ?? []).map((split) => (typeof split === 'string' ? split : split.name));
  const checkAction = action ? await actionChecker(server, signal) : undefined;
  const opening = prompt ?? (action ? undefined : descriptionOf(metadata));
  if (opening === undefined || opening === '')
    throw badOption(
      action
        ? '`prompt` is missing. Give a function that turns an observation into a message.'
        : '`prompt` is missing, and the server has no description. Give the text that begins the conversation.',
    );
  if (action && typeof opening === 'string')
    throw badOption(
      '`prompt` is a text, and with `action` the model would never read what the environment shows. Give a function.',
    );
  return { metadata, named, splitNames, checkAction, opening };
}

/** What the environment says of itself. The package's own words for one that says nothing are none. */
function descriptionOf(metadata: z.output<typeof metadataSchema> | null): string | undefined {
  const { name, description } = metadata ?? {};
  return !description || description === `${name} environment` ? undefined : description;
}

const badOption = (message: string) => new OpenEnvError('bad_option', message);
