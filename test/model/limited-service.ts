import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createClient, ModelHandle } from 'martingale';
import { startServer } from '../support/http-server.ts';

export interface LimitedServiceOptions {
  /** Maximum number of requests in flight; beyond it, the answer is `status`. */
  limit: number;
  /** Default 429. */
  status?: 429 | 503;
  /** Duration of an answer in milliseconds, by the number of requests in flight. */
  delayMs: (inFlight: number) => number;
}

const reply = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 0,
  model: 'local/p/n:step1',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'fine' },
      finish_reason: 'stop',
      logprobs: { content: [{ token: 'fine', logprob: -0.5, top_logprobs: [] }] },
      token_ids: [7],
    },
  ],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  prompt_token_ids: [1],
});

/** A service with one route and a limit of requests in flight. It records what it has seen. */
export async function startLimitedService({ limit, status = 429, delayMs }: LimitedServiceOptions) {
  const seen = { answered: 0, refused: 0, most: 0 };
  let inFlight = 0;
  const answer = async (response: ServerResponse) => {
    if (inFlight >= limit) {
      seen.refused++;
      return response.writeHead(status, { 'content-type': 'application/json' }).end('{"detail":"busy"}');
    }
    seen.most = Math.max(seen.most, ++inFlight);
    const milliseconds = delayMs(inFlight);
    if (milliseconds === Number.POSITIVE_INFINITY) {
      await once(response, 'close');
      inFlight--;
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    inFlight--;
    seen.answered++;
    response.writeHead(200, { 'content-type': 'application/json' }).end(reply);
  };
  const server = await startServer((request, response) => {
    request.resume();
    request.once('end', () => void answer(response));
  });
  const client = createClient({ baseUrl: server.url, apiKey: 'key', backoffMs: 10 });
  return {
    seen,
    client,
    model: new ModelHandle({ client, name: 'local/p/n:step1' }),
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
}
