import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { z } from 'zod';
import { benchModel } from '../engine.ts';
import { llamas } from './grpo.ts';
import { PeerProgram } from './peer-program.ts';
import { measureInTurn, median, medianRatio } from './rounds.ts';

export interface ChatsWork {
  /** Callers. Each makes its next call as soon as the last is answered. */
  clients: number;
  replyTokens: number;
}

export interface ChatPeerRow extends ChatsWork {
  what: string;
  /** Median of chat completions a second. */
  perSecond: number;
  /** martingale's rate relative to this one. */
  ratio: number;
}

interface ChatService {
  baseUrl: string;
  headers?: Record<string, string>;
  /** Fields of each request, beside those that both services get. */
  body: object;
}

const assets = new URL('../../../src/engines/embedded/built-in/', import.meta.url);
const answered = z.object({ usage: z.object({ completion_tokens: z.number() }) });

async function chat({ baseUrl, headers, body }: ChatService, index: number, replyTokens: number) {
  const response = await fetch(`${baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      messages: [{ role: 'user', content: `${index} the quick brown fox` }],
      temperature: 1,
      max_completion_tokens: replyTokens,
      ...body,
    }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${baseUrl} answered ${response.status}: ${text.slice(0, 500)}`);
  const made = answered.parse(JSON.parse(text)).usage.completion_tokens;
  if (made !== replyTokens) throw new Error(`${baseUrl} sampled ${made} tokens instead of ${replyTokens}.`);
}

/** Chat completions a second. */
async function load(service: ChatService, { clients, replyTokens }: ChatsWork, calls: number) {
  let next = 0;
  const begun = performance.now();
  const caller = async () => {
    while (next < calls) await chat(service, next++, replyTokens);
  };
  await Promise.all(Array.from({ length: clients }, caller));
  return (1000 * calls) / (performance.now() - begun);
}

async function untilHealthy(baseUrl: string): Promise<void> {
  const deadline = performance.now() + 120_000;
  while (!(await fetch(`${baseUrl}/health`).catch(() => null))?.ok) {
    if (performance.now() > deadline)
      throw new Error(`${baseUrl} did not become healthy within two minutes.`);
    await pause(100);
  }
}

/**
 * Chat completions beside those of `transformers serve` with continuous batching and a Llama of as many parameters.
 * The callers share a thread with the service of martingale; the peer has a process of its own.
 */
export async function* benchChatPeers(options: {
  python: string;
  works: readonly ChatsWork[];
  rounds: number;
}): AsyncGenerator<ChatPeerRow> {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const weights = join(folder, 'llama');
  const [tokenizer, template] = ['tokenizer.json', 'chat_template.jinja'].map((name) =>
    fileURLToPath(new URL(name, assets)),
  );
  const engine = await createEmbeddedEngine();
  const service = await startService({ engine, dataFolder: join(folder, 'service') });
  try {
    await using peer = new PeerProgram(options.python, 'chat_server.py', [
      ...[tokenizer ?? '', template ?? '', String(llamas.parameters), weights],
    ]);
    const { port } = await peer.hear(z.object({ port: z.number() }));
    const ours: ChatService = {
      baseUrl: service.url,
      headers: { authorization: `Bearer ${service.apiKey}` },
      body: { model: benchModel, ignore_eos: true },
    };
    const theirs: ChatService = { baseUrl: `http://127.0.0.1:${port}`, body: { model: weights } };
    await untilHealthy(theirs.baseUrl);
    for (const work of options.works) {
      const calls = work.clients * 4;
      const measures = {
        martingale: () => load(ours, work, calls),
        'transformers serve': () => load(theirs, work, calls),
      };
      await measureInTurn(1, measures);
      const rates = await measureInTurn(options.rounds, measures);
      for (const [what, measured] of Object.entries(rates))
        yield { ...work, what, perSecond: median(measured), ratio: medianRatio(rates.martingale, measured) };
    }
  } finally {
    await service.close();
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  }
}
