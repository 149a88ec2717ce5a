import type { z } from 'zod';
import { type Environment, isEnvironment, type ScenarioSet } from '../../../environment/index.ts';
import { checkOptionNames, type OptionNames } from '../../../util/option-names.ts';
import { isLoopback, newKey } from '../../../util/server-access.ts';
import { showValue } from '../../../util/show-value.ts';
import { OpenRewardError } from '../server.ts';
import { commonTools, replyToolOf, requireServable } from './servable.ts';
import type { SessionProblem } from './sessions.ts';
import { readSplits } from './tasks.ts';

export interface ServeEnvironmentOptions<Schema extends z.ZodType> {
  /** In pieces: with `prompt`, not `rollout`. */
  environment: Environment<Schema>;
  /** The scenarios of each split, such as `{ train, test }`: the tasks of clients, who can read them whole. */
  scenarios: Readonly<Record<string, readonly z.input<Schema>[] | ScenarioSet<z.input<Schema>>>>;
  /** Default 0: any free port. */
  port?: number;
  /** Address to listen on. Default 127.0.0.1. */
  host?: string;
  /**
   * What requests must have as their bearer token, or as `X-API-Key`: they can read every scenario with its answer. Default:
   * a new one, which `apiKey` of the server tells.
   */
  apiKey?: string;
  /** Most sessions at a time, clean-ups included; a client waits for a free one. Default 1000. */
  maxSessions?: number;
  /** A session that is silent for so long is deleted, in milliseconds. Default 900,000. */
  idleTimeoutMs?: number;
  /** Longest time of a session, from set-up to rewards, in milliseconds. Then it fails. Default 24 hours. */
  timeoutMs?: number;
  /** Longest time of each reward, in milliseconds. Default 600,000. */
  rewardTimeoutMs?: number;
  /**
   * Whether the tool `reply`, which takes a reply in words, is listed as one of the model's: for trainers that know no
   * terminal tool, such as TRL. Default false: only where `observe` answers words.
   */
  listReply?: boolean;
  /** Called for each session that fails, and for each clean-up that does. Default: clients alone hear of failures. */
  onProblem?: (problem: SessionProblem) => void;
  /** Ends the reading of scenarios, with its reason. Has no effect on the server, which `close` ends. Default: none. */
  signal?: AbortSignal;
}

const names = {
  environment: true,
  scenarios: 'object',
  port: 'port',
  host: 'text',
  apiKey: 'text',
  maxSessions: 'numeric',
  idleTimeoutMs: 'numeric',
  timeoutMs: 'numeric',
  rewardTimeoutMs: 'numeric',
  listReply: [true, false],
  onProblem: 'function',
  signal: 'signal',
} satisfies OptionNames<ServeEnvironmentOptions<z.ZodType>>;

export interface ServedEnvironmentServer {
  /** Base address without a trailing slash. */
  readonly url: string;
  /** What requests must have as their key. */
  readonly apiKey: string;
  /** Stops listening, ends all sessions and waits for their clean-ups. Further calls return the same promise. */
  close(): Promise<void>;
}

/**
 * Serves an environment over the Open Reward Standard, so that trainers in Python can train on it. Each session is a
 * rollout of the environment whose model is the client.
 *
 *     const { url, close } = await serveEnvironment({ environment, scenarios: { train, test }, port: 8080 });
 *
 * @throws OpenRewardError (`environment_not_servable`, `bad_option`); the system's error if it cannot listen.
 */
export async function serveEnvironment<Schema extends z.ZodType>(
  options: ServeEnvironmentOptions<Schema>,
): Promise<ServedEnvironmentServer> {
  checkOptionNames('serveEnvironment()', options, names);
  const {
    scenarios,
    port = 0,
    host = '127.0.0.1',
    apiKey = newKey(),
    listReply = false,
    onProblem = () => {},
  } = options;
  if (!isEnvironment(options.environment) || !options.environment.definition)
    throw badOption('environment', options.environment, 'Give what defineEnvironment() returns.');
  const amounts = {
    maxSessions: options.maxSessions ?? 1000,
    idleTimeoutMs: options.idleTimeoutMs ?? 900_000,
    timeoutMs: options.timeoutMs ?? 86_400_000,
    rewardTimeoutMs: options.rewardTimeoutMs ?? 600_000,
  };
  for (const [name, amount] of Object.entries(amounts))
    if (!(amount > 0) || (name === 'maxSessions' && !Number.isInteger(amount)))
      throw badOption(name, amount, `Give a ${name === 'maxSessions' ? 'whole ' : ''}number above 0.`);
  if (!/^[\x21-\x7e]+$/.test(apiKey))
    throw new OpenRewardError('bad_option', 'apiKey: give printable ASCII characters without spaces');
  const environment = requireServable(options.environment);
  const splits = await readSplits(environment, scenarios, options.signal);
  // Loaded here, so that programs that serve nothing load neither the HTTP server nor the runner.
  const [{ createServedApp }, { Sessions }, { listen }] = await Promise.all([
    import('./app.ts'),
    import('./sessions.ts'),
    import('../../../util/listen.ts'),
  ]);
  const { maxSessions: max, idleTimeoutMs: idleMs, ...deadlines } = amounts;
  const sessions = new Sessions({ max, idleMs, onProblem });
  const tools = await commonTools(environment);
  const replyTool = replyToolOf(environment, { listReply });
  const isLocal = isLoopback(host);
  const app = createServedApp({
    environment,
    splits,
    tools,
    replyTool,
    sessions,
    apiKey,
    isLocal,
    deadlines,
  });
  const listening = await listen(app, { host, port }).catch(async (error) => {
    await sessions.close();
    throw error;
  });
  let closed: Promise<void> | undefined;
  return { url: listening.url, apiKey, close: () => (closed ??= listening.close(sessions.close())) };
}

const badOption = (name: string, value: unknown, remedy: string): OpenRewardError =>
  new OpenRewardError('bad_option', `${name} is ${showValue(value)}. ${remedy}`);
