import { expect, test } from 'vitest';
import type { GenerateRequest } from '../../../src/engines/engine.ts';
import { plainSampling } from '../../../src/learning/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { sampleFrom, serverOf, tinkerEngines, untrained } from './support.ts';
import type { TinkerServer } from './tinker-server.ts';

const { open } = tinkerEngines(sharedFolder());

/** A chat with choices, as the service asks for them: the same objects, and seeds that follow each other. */
const chat = { weights: untrained, prompt: [5, 6, 7], sampling: plainSampling, stopTokens: [] };
const choices = (seed: GenerateRequest['seed'], count: number) =>
  Array.from({ length: count }, (_, index) => ({
    ...chat,
    ...(seed === undefined ? {} : { seed: BigInt(seed) + BigInt(index) }),
  }));

/** Numbers of samples in the requests, without that of the engine's start. */
const sizes = ({ received }: TinkerServer) =>
  received
    .filter(({ path, body }) => path.endsWith('asample') && !body.prompt_logprobs)
    .map(({ body }) => body.num_samples);

test.each([
  { seed: 1, requests: [8] },
  { seed: 2n ** 63n, requests: [8] },
  // The server's seed begins again at 0.
  { seed: 2 ** 31 - 3, requests: [2, 6] },
  { seed: -5, requests: [5, 3] },
])(
  'the choices of one chat share requests, and each has the tokens of its seed alone: seed $seed',
  async ({ seed, requests }) => {
    const server = await serverOf();
    const engine = await open(server);
    const together = await Promise.all(
      choices(seed, 8).map((request) => sampleFrom(engine, untrained, request)),
    );
    expect(sizes(server)).toEqual(requests);
    for (const [index, request] of choices(seed, 8).entries())
      expect(await sampleFrom(engine, untrained, request)).toEqual(together[index]);
    expect(new Set(together.map(({ tokens }) => tokens.join())).size).toBeGreaterThan(4);
  },
);

test('choices without a seed are one request with different replies', async () => {
  const server = await serverOf();
  const engine = await open(server);
  const replies = await Promise.all(
    choices(undefined, 4).map((request) => sampleFrom(engine, untrained, { ...request, seed: undefined })),
  );
  expect(sizes(server)).toEqual([4]);
  expect(new Set(replies.map(({ tokens }) => tokens.join())).size).toBe(4);
});

test('calls with other prompts, sampling, lengths or seeds are requests of their own, all sent at once', async () => {
  const server = await serverOf();
  const engine = await open(server);
  await sampleFrom(engine, untrained);
  const waiting: (() => void)[] = [];
  server.hold = ({ path }) =>
    path.endsWith('asample') ? new Promise((resolve) => waiting.push(resolve)) : undefined;
  const others = [
    ...[{ seed: 1 }, { seed: 9 }, { seed: 10, prompt: [5, 6, 7] }, { seed: 11, maxTokens: 6 }],
    ...[
      { seed: 12, stopTokens: [4] },
      { seed: 13, sampling: { ...plainSampling, temperature: 0 } },
    ],
    ...Array.from({ length: 250 }, (_, index) => ({ seed: 1000 + 2 * index })),
  ].map((different) => sampleFrom(engine, untrained, { ...chat, ...different }));
  await expect.poll(() => waiting.length).toBe(others.length);
  for (const answer of waiting) answer();
  await Promise.all(others);
  expect(sizes(server)).toEqual(Array.from({ length: others.length + 1 }, () => 1));
});

test('a failed request fails all its choices, and each leaves by itself', async () => {
  const server = await serverOf();
  const engine = await open(server);
  server.fault = ({ path }) => (path.endsWith('asample') ? 422 : undefined);
  const failed = await Promise.allSettled(
    choices(1, 3).map((request) => sampleFrom(engine, untrained, request)),
  );
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  server.fault = ({ path }) => (path.endsWith('asample') ? 'silent' : undefined);
  const stop = new AbortController();
  const left = choices(1, 3).map((request) =>
    sampleFrom(engine, untrained, { ...request, signal: stop.signal }),
  );
  await expect.poll(() => sizes(server).length).toBe(3);
  stop.abort(new Error('left'));
  for (const one of left) await expect(one).rejects.toThrow('left');
});
