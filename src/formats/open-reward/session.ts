import { setInterval } from 'node:timers';
import type { z } from 'zod';
import { checkBlocks } from './model-messages.ts';
import {
  type Block,
  type CallResult,
  type ConversationMessage,
  callResultSchema,
  messagesSchema,
  promptSchema,
  type ToolList,
  toolsSchema,
} from './protocol.ts';
import { OpenRewardError, type OpenRewardServer } from './server.ts';

export interface OpenRewardTask {
  split: string;
  index: number;
}

interface SessionOptions {
  server: OpenRewardServer;
  /** The environment's name on the server. */
  environment: string;
  task: OpenRewardTask;
  /** What the environment needs to know, such as keys of its own services. */
  secrets: Readonly<Record<string, string>>;
  signal: AbortSignal;
}

/** How often the server hears that the session is in use. It deletes one that is silent for 15 minutes. */
const pingMs = 30_000;

/** One episode: a session of an environment on a server. */
export class OpenRewardSession {
  readonly #server: OpenRewardServer;
  readonly #environment: string;
  readonly #id: string;
  readonly #pings: NodeJS.Timeout;
  /** What the episode begins with. */
  messages: ConversationMessage[] = [];
  tools: ToolList = { tools: [] };
  /** Whether the environment has said that the episode is over. */
  isFinished = false;

  private constructor(server: OpenRewardServer, environment: string, id: string) {
    this.#server = server;
    this.#environment = environment;
    this.#id = id;
    this.#pings = setInterval(() => void this.#ping(), pingMs);
    this.#pings.unref();
  }

  /** Begins an episode. If that fails, the session is deleted on the server. */
  static async open({
    server,
    environment,
    task,
    secrets,
    signal,
  }: SessionOptions): Promise<OpenRewardSession> {
    const id = await newSession(server, signal);
    const session = new OpenRewardSession(server, environment, id);
    try {
      const headers: Record<string, string> =
        Object.keys(secrets).length > 0 ? { 'x-secrets': encoded(secrets) } : {};
      const body = { env_name: environment, ...task };
      await server.json('POST', '/create', { body, session: id, headers, signal });
      session.tools = await session.#read('task_tools', toolsSchema, signal);
      session.messages = await session.#conversation(signal);
      checkBlocks(session.messages, server.url);
      return session;
    } catch (error) {
      await session.close(AbortSignal.timeout(5000)).catch(() => undefined);
      throw error;
    }
  }

  /** Runs a tool of the environment. */
  async call(name: string, input: unknown, signal: AbortSignal): Promise<CallResult> {
    const path = `/${this.#environment}/call`;
    const text = await this.#server.streamed(path, { body: { name, input }, session: this.#id, signal });
    const result = parse(callResultSchema, path, JSON.parse(text), this.#server.url);
    if (result.ok ? result.output.finished : result.reason === 'episode_finished') this.isFinished = true;
    return result;
  }

  /** Deletes the session. */
  async close(signal: AbortSignal): Promise<void> {
    clearInterval(this.#pings);
    const options = { session: this.#id, signal, isHarmless: true };
    await this.#server.json('POST', '/delete', options);
    await this.#server.json('POST', '/delete_session', options);
  }

  async #conversation(signal: AbortSignal): Promise<ConversationMessage[]> {
    try {
      return await this.#read('messages', messagesSchema, signal);
    } catch (error) {
      // Older servers have a prompt only.
      if (!(error instanceof OpenRewardError && error.status === 404)) throw error;
      const blocks: Block[] = await this.#read('prompt', promptSchema, signal);
      return [{ role: 'user', blocks }];
    }
  }

  async #read<Schema extends z.ZodType>(what: string, schema: Schema, signal: AbortSignal) {
    const path = `/${this.#environment}/${what}`;
    const value = await this.#server.json('GET', path, { session: this.#id, signal });
    return parse(schema, path, value, this.#server.url);
  }

  async #ping(): Promise<void> {
    // If the session is gone, the next call says so.
    await this.#server.json('POST', '/ping', { session: this.#id }).catch(() => undefined);
  }
}

/** The id of a new session: the server streams it, as it may have to start a machine first. */
async function newSession(server: OpenRewardServer, signal: AbortSignal): Promise<string> {
  let id = '';
  await server.streamed('/create_session', { signal, onTask: (task) => (id = task) });
  if (id !== '') return id;
  throw new OpenRewardError(
    'environment_server_refused',
    `The environment server ${server.url} named no session.`,
  );
}

const encoded = (secrets: Readonly<Record<string, string>>): string => {
  const values = Object.fromEntries(Object.entries(secrets).map(([name, value]) => [name, { value }]));
  return Buffer.from(JSON.stringify(values)).toString('base64');
};

/** @throws OpenRewardError that names the field. */
export function parse<Schema extends z.ZodType>(
  schema: Schema,
  path: string,
  value: unknown,
  url: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new OpenRewardError(
    'environment_server_refused',
    `The environment server ${url} answered ${path} with what the Open Reward Standard does not have: ${issue?.path.join('.')}: ${issue?.message}`,
    { cause: parsed.error },
  );
}
