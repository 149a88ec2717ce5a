import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient, openModel, sft } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { z } from 'zod';
import type { Engine } from '../../../src/engines/engine.ts';
import { plainSampling } from '../../../src/learning/index.ts';
import { freePort } from '../../support/free-port.ts';
import { fromSource, root } from '../../support/programs.ts';
import { type CheckpointShape, shapedCheckpoint } from './checkpoint-shapes.ts';
import { PeerProgram } from './peer-program.ts';
import { measureInTurn, median, medianRatio } from './rounds.ts';

const threads = 2;
const prompt = 128;
const reply = 64;
const length = 256;
const decisions = length / 4;
/** A GRPO step, of which the time is computed from measured rates. */
const grpo = { rollouts: 64, sampled: 200, sequence: 400 };

export interface CheckpointPeerRow {
  name: string;
  what: string;
  /** Medians of tokens a second. */
  ours: number;
  float32: number;
  bfloat16: number;
  /** Ours relative to each. */
  ratios: { float32: number; bfloat16: number };
}

export interface CheckpointNeeds {
  name: string;
  /** Largest resident memory of the process that did all the work. Ours has the callers in it. */
  peakBytes: { ours: number; float32: number; bfloat16: number };
  /** From the start of `martingale serve` to its first answer, the smallest of three. */
  serveSeconds: number;
  /** Minutes of a GRPO step, computed from the rates of decoding at 32 and of training; null without both. */
  grpoMinutes: number | null;
}

const answer = z.object({ tokensPerSecond: z.number(), peakBytes: z.number() });
const answered = z.object({
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }),
});

interface Target {
  baseUrl: string;
  apiKey: string;
  model: string;
}

async function chat({ baseUrl, apiKey, model }: Target, content: string, maxTokens: number) {
  const response = await fetch(`${baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({
      model,
      messages: [{ role: 'user', content }],
      temperature: 1,
      max_completion_tokens: maxTokens,
      ignore_eos: true,
    }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`The service answered ${response.status}: ${text.slice(0, 500)}`);
  const { usage } = answered.parse(JSON.parse(text));
  if (usage.completion_tokens !== maxTokens)
    throw new Error(`The service sampled ${usage.completion_tokens} tokens instead of ${maxTokens}.`);
  return usage.prompt_tokens;
}

let calls = 0;

/** Begins with a number of its own, so that the prefix cache does not help. */
const contentOf = (words: number) => `${1000 + (calls++ % 9000)} ${'a '.repeat(words).trim()}`;

/** The number of words with which a prompt has `prompt` tokens, the template's among them. */
async function wordsFor(target: Target): Promise<number> {
  let words = 8;
  for (let attempt = 0; attempt < 8; attempt++) {
    const tokens = await chat(target, contentOf(words), 1);
    if (tokens === prompt) return words;
    words = Math.max(1, words + prompt - tokens);
  }
  throw new Error(`No prompt of ${prompt} tokens was found.`);
}

/** Sampled tokens per second of `batch` chats at once, their prompts included in the time. */
async function decode(target: Target, batch: number, words: number, sampled: number): Promise<number> {
  const begun = performance.now();
  await Promise.all(Array.from({ length: batch }, () => chat(target, contentOf(words), sampled)));
  return (batch * sampled * 1000) / (performance.now() - begun);
}

/** Tokens per second after the first of each reply, which comes with the prompt: from whole replies and from first tokens. */
async function afterPrompts(batch: number, rateOf: (sampled: number) => Promise<number>): Promise<number> {
  const whole = (batch * reply) / (await rateOf(reply));
  const first = batch / (await rateOf(1));
  return (batch * (reply - 1)) / (whole - first);
}

/**
 * Trained tokens per second of an optimizer step after one that is not counted. `sharesPrompt`: all sequences begin with
 * the same `prompt` tokens, as the rollouts of a group do; else they differ from the first token on.
 */
async function train(
  engine: Engine,
  baseModel: string,
  { batch, sharesPrompt = false }: { batch: number; sharesPrompt?: boolean },
): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  // Only tokens of text: a reply may contain no others.
  const tokenizer = engine.tokenizer(baseModel);
  const textOf = (name: number) =>
    tokenizer.encode(`${name} the quick brown fox jumps over the dog `.repeat(length));
  const shared = sharesPrompt ? textOf(0).slice(0, prompt) : [];
  const datums = Array.from({ length: batch }, (_, row) => ({
    tokens: [...shared, ...textOf(row + 1)].slice(0, length),
    spans: [
      {
        start: length - decisions,
        length: decisions,
        logprobs: new Array(decisions).fill(null),
        sampling: plainSampling,
        constraint: null,
        advantage: 1,
        weight: 1 / (batch * decisions),
      },
    ],
  }));
  const loss = { type: 'cross_entropy' as const };
  const step = { datums, loss, reference: null, learningRate: 1e-4 };
  const ends: number[] = [];
  try {
    await engine.train({
      from: { baseModel, folder: null },
      folder: join(folder, 'checkpoint'),
      batches: [step, step],
      onStep: () => ends.push(performance.now()),
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  const [first = 0, last = 0] = ends;
  return (batch * length * 1000) / (last - first);
}

async function serveSeconds(checkpoint: string): Promise<number> {
  const port = await freePort();
  const data = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const begun = performance.now();
  const program = [...fromSource, join(root, 'src/cli/main.ts'), 'serve', '--port', String(port)];
  const child = spawn(process.execPath, [...program, '--data', data, '--checkpoint', checkpoint], {
    stdio: 'ignore',
  });
  const ended = once(child, 'exit');
  try {
    while (child.exitCode === null) {
      if (await fetch(`http://127.0.0.1:${port}/v1/health`).catch(() => null))
        return (performance.now() - begun) / 1000;
      await pause(5);
    }
    throw new Error(`martingale serve ended with ${child.exitCode}`);
  } finally {
    child.kill('SIGTERM');
    await ended;
    await rm(data, { recursive: true, force: true });
  }
}

/** Forgets the largest resident memory so far, where the system can. */
async function forgetPeak(): Promise<void> {
  if (existsSync('/proc/self/clear_refs')) await writeFile('/proc/self/clear_refs', '5');
}

/** Checkpoints with random weights and a LoRA adapter, beside transformers and PEFT in fp32 and bf16. */
export async function* benchCheckpointPeers(options: {
  python: string;
  shapes: readonly CheckpointShape[];
  batches: readonly number[];
  rounds: number;
}): AsyncGenerator<{ row: CheckpointPeerRow } | { needs: CheckpointNeeds }> {
  for (const shape of options.shapes) yield* benchShape(shape, options);
}

async function* benchShape(
  shape: CheckpointShape,
  { python, batches, rounds }: { python: string; batches: readonly number[]; rounds: number },
): AsyncGenerator<{ row: CheckpointPeerRow } | { needs: CheckpointNeeds }> {
  const { name, trainingBatch } = shape;
  const checkpoint = await shapedCheckpoint(shape);
  const starts: number[] = [];
  for (let run = 0; run < 3; run++) starts.push(await serveSeconds(checkpoint));
  const folder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  await forgetPeak();
  const engine = await createEmbeddedEngine({
    threads,
    samplerThreads: threads,
    checkpoints: [{ folder: checkpoint, id: name }],
  });
  const service = await startService({ engine, dataFolder: join(folder, 'service') });
  try {
    await using float32 = new PeerProgram(python, 'checkpoints.py', [checkpoint, 'float32', `${threads}`]);
    await using bfloat16 = new PeerProgram(python, 'checkpoints.py', [checkpoint, 'bfloat16', `${threads}`]);
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    const messages = [
      { role: 'user' as const, content: 'hello' },
      { role: 'assistant' as const, content: 'hello' },
    ];
    const { model } = await sft({
      model: await openModel({ client, project: 'bench', name: 'adapter', baseModel: name }),
      examples: [{ messages }],
    });
    const target = { baseUrl: service.url, apiKey: service.apiKey, model: model.name };
    const words = await wordsFor(target);
    const peaks = { float32: 0, bfloat16: 0 };
    const asked = async (dtype: keyof typeof peaks, request: object) => {
      const { tokensPerSecond, peakBytes } = await { float32, bfloat16 }[dtype].ask(request, answer);
      peaks[dtype] = peakBytes;
      return tokensPerSecond;
    };
    const compare = async (what: string, request: object, ours: () => Promise<number>) =>
      compareWith(what, {
        ours,
        float32: () => asked('float32', request),
        bfloat16: () => asked('bfloat16', request),
      });
    const compareWith = async (
      what: string,
      measures: Record<'ours' | 'float32' | 'bfloat16', () => Promise<number>>,
    ) => {
      await measureInTurn(1, measures);
      const rates = await measureInTurn(rounds, measures);
      return {
        name,
        what,
        ours: median(rates.ours),
        float32: median(rates.float32),
        bfloat16: median(rates.bfloat16),
        ratios: {
          float32: medianRatio(rates.ours, rates.float32),
          bfloat16: medianRatio(rates.ours, rates.bfloat16),
        },
      };
    };
    let decoding: number | null = null;
    for (const batch of batches) {
      const request = { work: 'decoding', batch, prompt, reply };
      const oursOf = (sampled: number) => decode(target, batch, words, sampled);
      const row = await compare(`decoding at ${batch}, with prompts`, request, () => oursOf(reply));
      if (batch === 32) decoding = row.ours;
      yield { row };
      const peerOf = (dtype: keyof typeof peaks) => () =>
        afterPrompts(batch, (sampled) => asked(dtype, { ...request, reply: sampled }));
      yield {
        row: await compareWith(`decoding at ${batch}`, {
          ours: () => afterPrompts(batch, oursOf),
          float32: peerOf('float32'),
          bfloat16: peerOf('bfloat16'),
        }),
      };
    }
    const request = { work: 'training', batch: trainingBatch, length, decisions };
    const training = await compare(`training ${trainingBatch}x${length}`, request, () =>
      train(engine, name, { batch: trainingBatch }),
    );
    yield { row: training };
    const group = { batch: 2 * trainingBatch, sharesPrompt: true };
    yield {
      row: await compare(
        `training ${group.batch}x${length} of one prompt`,
        { ...request, batch: group.batch },
        () => train(engine, name, group),
      ),
    };
    const seconds =
      decoding === null
        ? null
        : (grpo.rollouts * grpo.sampled) / decoding + (grpo.rollouts * grpo.sequence) / training.ours;
    yield {
      needs: {
        name,
        peakBytes: { ours: process.resourceUsage().maxRSS * 1024, ...peaks },
        serveSeconds: Math.min(...starts),
        grpoMinutes: seconds === null ? null : seconds / 60,
      },
    };
  } finally {
    await service.close();
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  }
}
