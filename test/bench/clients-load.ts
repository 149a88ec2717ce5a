import { Agent } from 'undici';

/** Chats that callers of a service make: each makes its next one as soon as the last is answered. */
export interface ChatLoad {
  model: string;
  /** The user message of each chat, after its number. */
  text: string;
  callers: number;
  calls: number;
  /** Tokens of each reply. */
  replyTokens: number;
  isStreamed: boolean;
}

export interface ChatsDone {
  /** Sampled tokens. */
  tokens: number;
  seconds: number;
  /** CPU time of this process in milliseconds. */
  cpuMs: number;
}

/**
 * Callers in a process of their own, with nothing but a connection pool, so that what they cost can be told from what
 * the service costs. Arguments: the service's address and its key. Each message is a load; its answer says what it took.
 */
async function run(load: ChatLoad): Promise<ChatsDone> {
  const { model, text: words, callers, calls, replyTokens, isStreamed } = load;
  const [origin = '', apiKey = ''] = process.argv.slice(2);
  const agent = new Agent({ connections: callers, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const settings = { model, max_completion_tokens: replyTokens, ignore_eos: true };
  const streaming = isStreamed ? { stream: true, stream_options: { include_usage: true } } : {};
  let next = 0;
  let tokens = 0;
  const caller = async () => {
    while (next < calls) {
      const seed = next++;
      const messages = [{ role: 'user', content: `${seed} ${words}` }];
      const body = JSON.stringify({ ...settings, ...streaming, messages, seed });
      const path = '/v1/chat/completions';
      const response = await agent.request({ origin, path, method: 'POST', headers, body });
      const text = await response.body.text();
      const made = /"completion_tokens":\s*(\d+)/.exec(text)?.[1];
      if (made === undefined) throw new Error(`The service answered ${response.statusCode}: ${text}`);
      tokens += Number(made);
    }
  };
  const usedBefore = process.cpuUsage();
  const started = performance.now();
  await Promise.all(Array.from({ length: callers }, caller));
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(usedBefore);
  await agent.destroy();
  return { tokens, seconds, cpuMs: (user + system) / 1000 };
}

process.on('message', async (load: ChatLoad) => process.send?.(await run(load)));
