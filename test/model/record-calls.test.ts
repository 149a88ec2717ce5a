import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { generateText, isStepCount, streamText, ToolLoopAgent, tool } from 'ai';
import fc from 'fast-check';
import { defineEnvironment, inProcess, ModelHandle, runGroups } from 'martingale';
import { RunError, recordCalls, replayCalls, replayModel } from 'martingale/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { WholeChatRequest } from '../../src/client/index.ts';
import { sharedFolder } from '../support/files.ts';
import { startFakeService } from './fake-service.ts';

const folder = sharedFolder();
let service: Awaited<ReturnType<typeof startFakeService>>;
let files = 0;
const newFile = () => join(folder, `calls/${files++}.jsonl`);

beforeAll(async () => {
  let answered = 0;
  service = await startFakeService({
    policy: ({ messages, seed }) => {
      const last = messages.at(-1);
      if (last?.role !== 'tool' && last?.content === 'look it up')
        return { toolCalls: [{ name: 'look', arguments: `{"at":${(seed ?? 0) % 10}}` }] };
      // A different answer to the same question each time: only the order of calls distinguishes them.
      if (last?.content === 'again') return { text: `answer ${answered++}` };
      return { text: `${seed} ${JSON.stringify(last?.content)}` };
    },
  });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
});

async function collect<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const all: Value[] = [];
  for await (const value of values) all.push(value);
  return all;
}

const name = 'e/p/n:step3';
const handle = () => new ModelHandle({ client: service.client, name });

/** Rollouts with tools; some stream, and some make calls in parallel. */
const environment = defineEnvironment({
  name: 'lookups',
  scenario: z.object({ word: z.string(), streamed: z.boolean() }),
  rollout: async ({ scenario: { word, streamed }, model, seed }) => {
    const agent = new ToolLoopAgent({
      model: model.languageModel,
      tools: {
        look: tool({
          inputSchema: z.object({ at: z.number() }),
          execute: ({ at }) => `${word} at ${at}`,
        }),
      },
      stopWhen: isStepCount(3),
    });
    const [aside, text] = await Promise.all([
      generateText({ model: model.languageModel, prompt: word, seed: seed % 2 }),
      streamed
        ? agent.stream({ prompt: 'look it up' }).then((reply) => reply.text)
        : agent.generate({ prompt: 'look it up' }).then((reply) => reply.text),
    ]);
    return `${text} ${aside.text}`;
  },
  rewards: { checksum: ({ outcome }) => [...outcome].reduce((sum, c) => sum + c.charCodeAt(0), 0) % 101 },
});
const scenarios = [
  { word: 'tea', streamed: false },
  { word: 'ink', streamed: true },
];

async function run(model: ModelHandle, concurrency = 64) {
  const executor = inProcess({ concurrency });
  const { groups, counts } = await runGroups({
    ...{ environment, scenarios, model, executor },
    rolloutsPerGroup: 3,
    seed: 5,
  });
  await executor.close();
  expect(counts.completed).toBe(6);
  return groups.map((group) =>
    group
      .toTrajectoryGroup()
      .toBody()
      .trajectories.map((body) => ({ ...body, start_time: '' })),
  );
}

test('recorded rollouts run again without a model, at any concurrency, with the same results', async () => {
  const file = newFile();
  const recorded = await run(handle().recordingTo(file));
  expect(recorded.flat().some(({ reward }) => reward !== recorded[0]?.[0]?.reward)).toBe(true);
  const callsBefore = service.requests.length;
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 8 }), async (concurrency) => {
      const { model, replay } = await replayModel({ file });
      expect(await run(model, concurrency)).toEqual(recorded);
      expect(replay.unused()).toEqual([]);
    }),
    { seed: 20261121, numRuns: 8 },
  );
  expect(service.requests).toHaveLength(callsBefore);
});

test('agents of other libraries, which call an endpoint, are recorded and replayed alike', async () => {
  const elsewhere = defineEnvironment({
    name: 'elsewhere',
    scenario: z.object({ stream: z.boolean() }),
    rollout: async ({ scenario: { stream }, model, seed }) => {
      const { baseUrl, apiKey } = await model.endpoint();
      // Changes the order of calls when several rollouts run at once.
      for (let turns = (seed % 16) * 20; turns > 0; turns--) await setImmediate();
      const response = await fetch(`${baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        // The agent sets the seed, so nothing in the request distinguishes the rollouts.
        body: JSON.stringify({ messages: [{ role: 'user', content: 'again' }], model: 'm', seed: 1, stream }),
      });
      return response.text();
    },
    rewards: { length: ({ trajectory }) => trajectory.sampledTokens },
  });
  const gather = async (model: ModelHandle, concurrency: number) => {
    const { groups } = await runGroups({
      ...{ environment: elsewhere, model, rolloutsPerGroup: 4, concurrency },
      scenarios: [{ stream: false }, { stream: true }],
    });
    return groups.map(({ trajectories }) => trajectories.map(({ choices }) => choices));
  };
  const file = newFile();
  const recorded = await gather(handle().recordingTo(file), 8);
  expect(recorded.flat()).toHaveLength(8);
  for (const concurrency of [1, 3]) {
    const { model, replay } = await replayModel({ file });
    expect(await gather(model, concurrency)).toEqual(recorded);
    expect(replay.unused()).toEqual([]);
  }
});

describe('a recorded call', () => {
  const request: WholeChatRequest = {
    model: name,
    messages: [{ role: 'user', content: 'look it up' }],
    seed: 4,
  };
  const streamedRequest = { ...request, stream: true, stream_options: { include_usage: true } } as const;

  test('answers a streamed request, and a recorded stream an unstreamed one, with the same reply', async () => {
    const replies: unknown[] = [];
    for (const recordedAs of ['whole', 'stream']) {
      const file = newFile();
      const source = new ModelHandle({
        name,
        completions: recordCalls({ file, completions: service.client.chat.completions }),
      });
      const ask = async (model: ModelHandle, as: string) => {
        const settings = { model: model.languageModel, prompt: 'look it up', seed: 4 } as const;
        const made = as === 'whole' ? await generateText(settings) : streamText(settings);
        return [await made.text, await made.reasoningText, await made.finishReason, await made.usage];
      };
      replies.push(await ask(source, recordedAs));
      for (const as of ['whole', 'stream']) replies.push(await ask((await replayModel({ file })).model, as));
    }
    expect(new Set(replies.map((reply) => JSON.stringify(reply).replaceAll(/call_\d+_/g, ''))).size).toBe(1);
  });

  test('is replayed as a stream in its original pieces', async () => {
    const file = newFile();
    const source = recordCalls({ file, completions: service.client.chat.completions });
    const chunks = await collect(await source.create(streamedRequest));
    const replay = await replayCalls({ file });
    expect(await collect(await replay.create(streamedRequest))).toEqual(chunks);
  });

  test('ends at the point where its reader stopped', async () => {
    const file = newFile();
    const source = recordCalls({ file, completions: service.client.chat.completions });
    for await (const _ of await source.create(streamedRequest)) break;
    const replay = await replayCalls({ file });
    expect(await collect(await replay.create(streamedRequest))).toHaveLength(1);
  });

  test('is found whatever the order of fields, null or absent', async () => {
    const file = newFile();
    await recordCalls({ file, completions: service.client.chat.completions }).create(request);
    const { seed, messages, model } = request;
    const replay = await replayCalls({ file });
    await expect(replay.create({ seed, messages, model, top_p: null })).resolves.toBeDefined();
  });

  test('is replayed once; equal calls are replayed in the order of the requests, over all recordings', async () => {
    const file = newFile();
    const again: WholeChatRequest = { ...request, messages: [{ role: 'user', content: 'again' }] };
    const said: unknown[] = [];
    for (let session = 0; session < 2; session++) {
      const source = recordCalls({ file, completions: service.client.chat.completions });
      for (let call = 0; call < 3; call++)
        said.push((await source.create(again)).choices[0]?.message.content);
    }
    const replay = await replayCalls({ file });
    expect(replay.unused()).toHaveLength(6);
    for (const expected of said)
      expect((await replay.create(again)).choices[0]?.message.content).toBe(expected);
    expect(replay.unused()).toEqual([]);
    await expect(replay.create(again)).rejects.toThrow(/recorded 6 times and is requested once more/);
  });
});

describe('a request that is not recorded', () => {
  test('is refused with the most similar call and the differences', async () => {
    const file = newFile();
    const source = recordCalls({ file, completions: service.client.chat.completions });
    const request = (content: string, seed: number): WholeChatRequest => ({
      model: name,
      messages: [
        { role: 'system', content: 'be brief' },
        { role: 'user', content },
      ],
      seed,
    });
    await source.create(request('one', 1));
    await source.create(request('two', 2));
    const replay = await replayCalls({ file });
    const refused = replay.create(request('two!', 2));
    await expect(refused).rejects.toBeInstanceOf(RunError);
    await expect(refused).rejects.toHaveProperty('code', 'call_not_recorded');
    await expect(refused).rejects.toThrow(
      'the nearest is call 2 of 2, where messages[1].content is "two!" and was "two".',
    );
    expect(replay.unused()).toHaveLength(2);
  });

  test('fails its rollout instead of giving a reward of 0', async () => {
    const file = newFile();
    await run(handle().recordingTo(file));
    const { model } = await replayModel({ file });
    const { groups } = await runGroups({
      ...{ environment, model, rolloutsPerGroup: 3, seed: 6 },
      scenarios: scenarios.slice(0, 1),
    });
    expect(groups[0]?.rollouts.map(({ status }) => status)).toEqual(['failed', 'failed', 'failed']);
  });
});

describe('the file', () => {
  const request: WholeChatRequest = { model: name, messages: [{ role: 'user', content: 'hello' }] };
  const record = (file: string, model = name) =>
    recordCalls({ file, completions: service.client.chat.completions }).create({ ...request, model });

  test('has a header with its version, and a line with the request of each call', async () => {
    const file = newFile();
    await record(file);
    const [header, call, end] = (await readFile(file, 'utf8')).split('\n');
    expect(JSON.parse(header ?? '')).toMatchObject({ format: 'martingale.calls', version: 1 });
    expect(JSON.parse(call ?? '')).toMatchObject({ request, rollout: null, asked: 0 });
    expect(end).toBe('');
  });

  test('continues after a line that a killed process left incomplete', async () => {
    const file = newFile();
    await record(file);
    await appendFile(file, '{"key":"half');
    await expect(replayCalls({ file })).resolves.toBeDefined();
    await record(file);
    expect((await replayCalls({ file })).unused()).toHaveLength(2);
  });

  test.each([
    ['that does not exist', null, /does not exist/],
    ['of something else', '{"a":1}\n', /neither a call nor a header/],
    ['without a header', '{"key":"a","request":{},"completion":{}}\n', /header/],
    ['of another version', '{"format":"martingale.calls","version":9}\n', /version 9/],
    ['with a broken line', '{"format":"martingale.calls","version":1}\n{"key\n{}\n', /line 2/],
  ])('%s is refused', async (_, content, message) => {
    const file = join(folder, `${files++}.jsonl`);
    if (content !== null) await writeFile(file, content);
    const refused = replayCalls({ file });
    await expect(refused).rejects.toBeInstanceOf(RunError);
    await expect(refused).rejects.toHaveProperty('code', 'invalid_recorded_calls');
    await expect(refused).rejects.toThrow(message);
  });

  test('with several models requires the name of the one to replay', async () => {
    const file = newFile();
    await record(file);
    await record(file, 'e/p/other');
    await expect(replayModel({ file })).rejects.toThrow(
      /Set `name` to one of "e\/p\/n:step3", "e\/p\/other"/,
    );
    expect((await replayModel({ file, name: 'e/p/other' })).model.name).toBe('e/p/other');
  });

  test('gives a model whose error says why it cannot be trained', async () => {
    const file = newFile();
    await record(file);
    const { model } = await replayModel({ file });
    expect(() => model.client).toThrow(/has no client/);
  });
});
