import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BaseModel, Engine, GenerateRequest, TrainingBatch, Weights } from '../../engines/engine.ts';
import { plainSampling } from '../../learning/index.ts';
import { largestOf, smallestOf } from '../../util/extremes.ts';

/** The size of a step of reinforcement learning. */
export interface StepSize {
  rollouts: number;
  /** Rollouts of a group, which have the same prompt. */
  group: number;
  /** Tokens of a rollout that the model samples. */
  sampled: number;
  /** All tokens of a rollout, with its prompt and the tools' results. */
  sequence: number;
}

/** Tokens per second, as the engine reaches them here. */
export interface Rates {
  /** Reading a prompt that no cache has. */
  prompt: number;
  /** Sampling one reply at a time. */
  oneReply: number;
  /** Sampling eight replies at once, all together. */
  eightReplies: number;
  /** Sampling all rollouts of a step at once, at most 64, all together. */
  allReplies: number;
  /** Training, with the optimizer step; null when training was refused. */
  training: number | null;
}

/** Most replies that are measured at once. With more, a token takes hardly less time. */
const mostReplies = 64;

/** About how long each measurement may take. */
const budgetSeconds = 2.5;

/**
 * Measures an engine with random tokens, after a short run of each kind that is not measured: a training step first,
 * then sampling from the adapter that it made. Takes about ten seconds; slow models take longer.
 */
export async function probe(
  engine: Engine,
  { id, contextLength, defaults }: BaseModel,
  { rollouts, group, sampled, sequence }: StepSize,
  { trains }: { trains: boolean },
): Promise<Rates> {
  const parent = await mkdtemp(join(tmpdir(), 'martingale-doctor-'));
  const tokenizer = engine.tokenizer(id);
  // A vocabulary has ids that no reply may contain, but text has none of them.
  const randomTokens = (count: number) => tokenizer.encode(randomWords(count)).slice(0, count);
  const longest = Math.min(sequence, contextLength);
  const base: Weights = { baseModel: id, folder: null };

  async function* batches(rate: () => number): AsyncGenerator<TrainingBatch> {
    yield batchOf({ groups: 1, count: 1, length: Math.min(16, longest) });
    const length = lengthFor(rate(), longest);
    const decisions = decisionsOf(length);
    // Whole groups, as many as take not too long: the prompt of each is computed once.
    const tokens = 4 * rate() * budgetSeconds;
    const count = Math.max(1, Math.min(group, Math.floor((tokens - (length - decisions)) / decisions)));
    const most = Math.floor(tokens / (length + (count - 1) * decisions));
    yield batchOf({ groups: Math.max(1, Math.min(Math.ceil(rollouts / group), most)), count, length });
  }

  const decisionsOf = (length: number) =>
    Math.max(1, Math.min(length - 1, Math.round((length * sampled) / sequence)));

  function batchOf({
    groups,
    count,
    length,
  }: {
    groups: number;
    count: number;
    length: number;
  }): TrainingBatch {
    const decisions = decisionsOf(length);
    const datums = Array.from({ length: groups }, () => {
      const prompt = randomTokens(length - decisions);
      return Array.from({ length: count }, () => ({
        tokens: [...prompt, ...randomTokens(decisions)],
        spans: [
          {
            start: length - decisions,
            length: decisions,
            logprobs: Array(decisions).fill(null),
            sampling: plainSampling,
            constraint: null,
            advantage: 1,
            weight: 1 / (groups * count * decisions),
          },
        ],
      }));
    }).flat();
    const learningRate = defaults.sftLearningRate;
    return { datums, loss: { type: 'cross_entropy' }, reference: null, learningRate };
  }

  async function measureTraining(folder: string): Promise<number> {
    let rate = 0;
    const onStep = (metrics: Record<string, number>) => {
      rate = metrics.tokens_per_second as number;
    };
    await engine.train({ from: base, folder, batches: batches(() => rate), onStep });
    return rate;
  }

  try {
    const folder = join(parent, 'trained');
    const training = trains ? await measureTraining(folder) : null;
    const weights = trains ? { baseModel: id, folder } : base;
    const reply = (prompt: readonly number[], maxTokens: number, seed: number): GenerateRequest => ({
      ...{ weights, prompt, maxTokens, seed },
      sampling: { ...plainSampling, ignoreEnd: true },
      stopStrings: [],
      stopTokens: [],
      constraint: null,
      topLogprobs: 0,
      priority: 0,
      cacheSalt: null,
    });
    const longestPrompt = Math.max(1, Math.min(longest - sampled, contextLength - 2));
    const warmUp = randomTokens(Math.min(16, longestPrompt));
    const promptSeconds = (tokens: readonly number[]) =>
      secondsOf(() => engine.generate(reply(tokens, 1, 0)));
    const first = await promptSeconds(warmUp);
    const second = await promptSeconds(warmUp.toReversed());
    const prompt = randomTokens(lengthFor(warmUp.length / Math.min(first, second), longestPrompt));
    const seconds = await promptSeconds(prompt);
    const room = Math.min(64, contextLength - prompt.length);
    const rateOf = (count: number) =>
      decodingRate(
        engine,
        Array.from({ length: count }, (_, seed) => reply(prompt, room, seed)),
      );
    await engine.drop(weights);
    return {
      prompt: prompt.length / seconds,
      oneReply: await rateOf(1),
      eightReplies: await rateOf(8),
      allReplies: await rateOf(Math.min(rollouts, mostReplies)),
      training,
    };
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
}

/** Words of random letters, at least one token each. */
function randomWords(count: number): string {
  const letter = () => String.fromCharCode(97 + Math.floor(Math.random() * 26));
  return Array.from({ length: count }, () => `${letter()}${letter()}${letter()}`).join(' ');
}

/** Tokens that take about the budget at a rate. */
const lengthFor = (rate: number, longest: number) =>
  Math.max(1, Math.min(longest, Math.max(32, Math.round(rate * budgetSeconds))));

async function secondsOf(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await run();
  return (performance.now() - started) / 1000;
}

/** Tokens per second of replies that are sampled at once, from when all have begun until the first one ends. */
async function decodingRate(engine: Engine, requests: readonly GenerateRequest[]): Promise<number> {
  const signal = AbortSignal.timeout(budgetSeconds * 1000);
  const started = performance.now();
  const arrivals = await Promise.all(
    requests.map(async (request) => {
      const times: number[] = [];
      const asked = engine.generate({ ...request, signal }, ({ tokens }) => {
        for (const _ of tokens) times.push(performance.now());
      });
      await asked.catch((error) => {
        if (!signal.aborted) throw error;
      });
      return times;
    }),
  );
  const from = largestOf(arrivals.map(([first = started]) => first));
  const to = smallestOf(arrivals.map((times) => times.at(-1) ?? started));
  const counted = arrivals.flat().filter((time) => time > from && time <= to).length;
  if (counted > 0) return counted / ((to - from) / 1000);
  // All tokens came at once, or fewer than two for some reply.
  return arrivals.flat().length / ((performance.now() - started) / 1000);
}
