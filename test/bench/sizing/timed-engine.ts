import { setTimeout as sleep } from 'node:timers/promises';
import type { GenerateRequest, Generation, TrainRequest } from '../../../src/engines/engine.ts';
import { baseModel, byteTokenizer, ScriptedEngine, special } from '../../support/scripted-engine.ts';
import { Gpu } from './queues.ts';
import { randomNumbers, replyTokens, type SimulatedRun } from './simulate.ts';

/** The times that a simulated run sets: of sampling, of training, and the lengths of replies. */
export type SetTimes = Pick<SimulatedRun, 'reply' | 'sampling' | 'training'>;

/** Words are tokens of four bytes; as large as ids of real models are. */
const firstWord = 100_000;
const words = 20_000;

function wordOf(token: number): string {
  return ` ${(token - firstWord + 36 ** 2).toString(36).padStart(3, '0')}`;
}

const tokenizer: typeof byteTokenizer = {
  ...byteTokenizer,
  vocabularySize: firstWord + words,
  bytes: (token) => (token >= firstWord ? Buffer.from(wordOf(token)) : byteTokenizer.bytes(token)),
  text: (token) => (token >= firstWord ? wordOf(token) : byteTokenizer.text(token)),
  decode: (tokens) => Buffer.concat(tokens.map((token) => tokenizer.bytes(token))).toString('utf8'),
};

/**
 * An engine whose sampling and training take the times of a simulated run and next to no computation. Replies are words
 * by chance, with log-probabilities of as many digits as real ones; their lengths follow the simulation's distribution.
 */
export class TimedEngine extends ScriptedEngine {
  override readonly baseModels = [
    { ...baseModel, contextLength: 2 ** 19, vocabularySize: tokenizer.vocabularySize },
  ];
  readonly #gpus: { gpu: Gpu<() => void>; timer?: NodeJS.Timeout }[] = [];
  #times!: SetTimes;

  constructor(times: SetTimes) {
    super();
    this.set(times);
  }

  /** Changes the times. Nothing may be in flight. */
  set(times: SetTimes): void {
    this.#times = times;
    const { gpus } = times.sampling;
    this.#gpus.splice(0);
    for (let index = 0; index < gpus; index++) this.#gpus.push({ gpu: new Gpu(times.sampling) });
  }

  override tokenizer(): typeof tokenizer {
    return tokenizer;
  }

  override async generate({ seed = 0, signal }: GenerateRequest): Promise<Generation> {
    signal?.throwIfAborted();
    const random = randomNumbers(Number(BigInt.asUintN(32, BigInt(seed))));
    const count = replyTokens(this.#times.reply, random);
    await this.#sample(count);
    const tokens = Array.from({ length: count - 1 }, () => firstWord + Math.floor(random() * words));
    tokens.push(special.end);
    return {
      tokens,
      logprobs: tokens.map(() => Math.log(1 - random() / 2)),
      topLogprobs: tokens.map(() => []),
      finishReason: 'stop',
      stop: null,
      cachedTokens: 0,
    };
  }

  override async train({ batches, ...request }: TrainRequest): Promise<void> {
    const times = this.#times.training;
    const timed = async function* () {
      const begun = performance.now();
      let ms = times.baseMs;
      for await (const batch of batches) {
        yield batch;
        for (const { spans } of batch.datums) for (const { length } of spans) ms += length * times.tokenMs;
      }
      const left = begun + ms - performance.now();
      if (left > 1) await sleep(left, undefined, { signal: request.signal });
    };
    await super.train({ ...request, batches: timed() });
    this.trained.splice(0);
  }

  #sample(tokens: number): Promise<void> {
    const place = this.#gpus.reduce((least, other) => (other.gpu.load < least.gpu.load ? other : least));
    const { promise, resolve } = Promise.withResolvers<void>();
    place.gpu.add(performance.now(), tokens, resolve);
    this.#await(place);
    return promise;
  }

  #await(place: { gpu: Gpu<() => void>; timer?: NodeJS.Timeout }): void {
    const { gpu } = place;
    clearTimeout(place.timer);
    if (gpu.nextEnd === Number.POSITIVE_INFINITY) return;
    place.timer = setTimeout(
      () => {
        for (const ended of gpu.take(performance.now())) ended();
        this.#await(place);
      },
      Math.ceil(gpu.nextEnd - performance.now()),
    );
  }
}
