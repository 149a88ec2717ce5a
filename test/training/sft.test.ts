import { openModel, sft } from 'martingale';
import { describe, expect, test } from 'vitest';
import { startTrainingWorld } from '../faults/network/training-world.ts';

const said = (content: string) => [
  {
    messages: [
      { role: 'user' as const, content: 'hi' },
      { role: 'assistant' as const, content },
    ],
  },
];
const examples = said('yes');

test('trains on every assistant message, or with assistantTurns on the last of each conversation', async () => {
  await using world = await startTrainingWorld({ knowsKeys: true });
  const model = await world.open();
  const messages = [...said('yes'), ...said('no')].flatMap((example) => example.messages);
  const tokens = async (turns: { assistantTurns?: 'all' | 'last' }) =>
    (await sft({ model, examples: [{ messages }], ...turns })).metrics.num_trainable_tokens;
  // A reply has the tokens of its text and an end token.
  expect(await tokens({})).toBe(4 + 3);
  expect(await tokens({ assistantTurns: 'all' })).toBe(4 + 3);
  expect(await tokens({ assistantTurns: 'last' })).toBe(3);
});

describe('supervised training with an idempotency key', () => {
  test('returns its checkpoint, also if the model has been trained since', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const model = await world.open();
    const first = await sft({ model, examples, idempotencyKey: 'first' });
    await sft({ model, examples: said('no') });
    const again = await sft({ model, examples, idempotencyKey: 'first' });
    expect([first.model.step, again.model.step]).toEqual([1, 1]);
    expect(again.metrics).toEqual(first.metrics);
    expect(world.engine.trainings).toBe(2);
  });

  test('throws again after its job was cancelled, and trains once under another key', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const model = await world.open();
    const stop = new AbortController();
    world.engine.hold = async (place) => {
      if (place !== 'train') return;
      stop.abort(new Error('enough'));
      await new Promise<void>(() => {});
    };
    const stopped = sft({ model, examples, idempotencyKey: 'nightly', signal: stop.signal });
    await expect(stopped).rejects.toThrow('enough');
    world.engine.hold = () => Promise.resolve();
    const repeated = sft({ model, examples, idempotencyKey: 'nightly' });
    await expect(repeated).rejects.toMatchObject({ code: 'training_job_failed' });
    await expect(repeated).rejects.toThrow(/failed: The job was cancelled while it ran\. No checkpoint/);
    const trained = await sft({ model, examples, idempotencyKey: 'nightly 2' });
    const again = await sft({ model, examples, idempotencyKey: 'nightly 2' });
    expect([trained.model.step, again.model.step]).toEqual([1, 1]);
    expect(await world.checkpoints()).toEqual([0, 1]);
  });

  test('refuses a key that is too long for a header', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const model = await openModel({ client: world.client, ...world.settings.model });
    const asking = sft({ model, examples, idempotencyKey: 'k'.repeat(251) });
    await expect(asking).rejects.toThrow('`idempotencyKey` has 251 characters; pass at most 250.');
  });
});

test.each([
  [{ batchSize: 0 }, '`batchSize` is 0'],
  [{ learningRate: [1e-3, -1] }, '`learningRate` has -1'],
  [{ learningRate: [] }, '`learningRate` is empty'],
])('a supervised training with %j is refused before the upload', async (settings, message) => {
  await using world = await startTrainingWorld({ knowsKeys: true });
  const model = await openModel({ client: world.client, ...world.settings.model });
  const uploads: unknown[] = [];
  model.client.uploads.create = async (text) => {
    uploads.push(text);
    throw new Error('uploaded');
  };
  await expect(sft({ model, examples, ...settings })).rejects.toThrow(message);
  expect(uploads).toEqual([]);
});
