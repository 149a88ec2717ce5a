import type { ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { type Client, createClient } from 'martingale';
import type { ChatCompletionRequest } from '../../src/contract/index.ts';
import { startServer } from '../support/http-server.ts';
import { draw } from './dice.ts';

/** How many of a hundred requests meet which fault. */
const faults = { answered: 78, slow: 8, refused: 6, broken: 3, cut: 2, cutInBody: 2, silent: 1 };

export type Fault = keyof typeof faults;

/** A completion whose text does not matter. */
function completion({ model, seed }: ChatCompletionRequest): string {
  const ids = [(seed ?? 0) % 1000, 1];
  return JSON.stringify({
    ...{ id: `chatcmpl-${seed}`, object: 'chat.completion', created: 0, model },
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: `reply to ${seed}` },
        finish_reason: 'stop',
        logprobs: { content: ids.map((id) => ({ token: String(id), logprob: -0.5, top_logprobs: [] })) },
        token_ids: ids,
      },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    prompt_token_ids: [5, 6, 7],
  });
}

/**
 * A service that answers, or fails in one of many ways, drawn by the request's seed: the same on every run. A repeat
 * after a refusal is drawn again.
 */
export async function startFailingService() {
  const met: Record<Fault, number> = {
    answered: 0,
    slow: 0,
    refused: 0,
    broken: 0,
    cut: 0,
    cutInBody: 0,
    silent: 0,
  };
  const asked = new Map<number, number>();
  const wait = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

  const answer = async (request: ChatCompletionRequest, response: ServerResponse) => {
    const seed = request.seed ?? 0;
    const times = asked.get(seed) ?? 0;
    asked.set(seed, times + 1);
    const fault = draw(seed + times, faults);
    met[fault]++;
    if (fault === 'silent') return;
    if (fault === 'cut') return response.socket?.destroy();
    if (fault === 'refused') return response.writeHead(times % 2 === 0 ? 429 : 503).end('{"detail":"busy"}');
    if (fault === 'broken') return response.writeHead(500).end('{"detail":"broken"}');
    if (fault === 'slow') await wait(50 + (seed % 100));
    const body = completion(request);
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
    if (fault !== 'cutInBody') return response.end(body);
    response.write(body.slice(0, 40), () => response.socket?.destroy());
    return undefined;
  };
  const server = await startServer((request, response) => {
    json(request)
      .then((body) => answer(body as ChatCompletionRequest, response))
      .catch(() => response.destroy());
  });
  const client: Client = createClient({ baseUrl: server.url, apiKey: 'key', backoffMs: 5 });
  return {
    client,
    met,
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
}
