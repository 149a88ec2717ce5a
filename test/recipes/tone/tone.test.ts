import { describe, expect, it } from 'vitest';
import { tone } from '../../../recipes/tone/environment.ts';
import { judged, liking } from '../../../recipes/tone/house-judge.ts';
import { moodOf, moods, toneScenarios } from '../../../recipes/tone/scenarios.ts';
import { ModelHandle, runGroups } from '../../../src/index.ts';
import { startFakeService } from '../../model/fake-service.ts';

const best = { opening: 'so sorry', body: 'we fix it today', closing: 'you can count on us' } as const;
const worst = { opening: 'well', body: 'look it up', closing: 'that is all' } as const;
const message = 'my lamp is broken again';

describe('the messages', () => {
  it('are in one split each, cover every mood, and come in an order that the seed decides', () => {
    const train = toneScenarios({ split: 'train', seed: 1 });
    const val = toneScenarios({ split: 'val', seed: 1 });
    const written = new Set(train.map((scenario) => scenario.message));
    expect(train.length + val.length).toBe(4 * 4 * 8);
    expect(val.filter((scenario) => written.has(scenario.message))).toEqual([]);
    expect(new Set(val.map((scenario) => moodOf(scenario.message)))).toEqual(new Set(moods));
    expect(toneScenarios({ split: 'train', seed: 1 })).toEqual(train);
    expect(toneScenarios({ split: 'train', seed: 2 })).not.toEqual(train);
    expect(moodOf('what a day')).toBeUndefined();
  });
});

describe('the house judge', () => {
  it('ranks conversations among each other, ties alike', () => {
    const conversation = (id: string, reply: object) =>
      `<conversation id="${id}">\n${JSON.stringify({ role: 'assistant', content: JSON.stringify(reply) })}\n</conversation>`;
    const context = `<context>\n${JSON.stringify({ role: 'user', content: message })}\n</context>`;
    const prompt = [context, conversation('c1', worst), conversation('c2', best), conversation('c3', worst)];
    expect(judged(prompt.join('\n\n')).scores.map(({ id, score }) => [id, score])).toEqual([
      ['c1', 0.25],
      ['c2', 1],
      ['c3', 0.25],
    ]);
    expect([liking(message, best), liking(message, worst)]).toEqual([3, 0]);
  });

  it('reads what the relative judge shows it, and its ranks become the rewards', async () => {
    const replies = [best, worst, { ...worst, closing: best.closing }];
    let calls = 0;
    await using service = await startFakeService({
      policy: () => ({ text: JSON.stringify(replies[calls++ % replies.length]) }),
    });
    const { groups } = await runGroups({
      environment: tone,
      scenarios: [{ id: 'one', message }],
      rolloutsPerGroup: 3,
      concurrency: 1,
      model: new ModelHandle({ client: service.client, name: 'local/tone/policy:step0' }),
    });
    expect(groups[0]?.trajectories.map(({ reward }) => reward)).toEqual([1, 0, 0.5]);
    expect(groups[0]?.trajectories.map(({ metrics }) => metrics.success)).toEqual([1, 0, 0]);
  });
});
