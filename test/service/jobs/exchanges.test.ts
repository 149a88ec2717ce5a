import { describe, expect, test } from 'vitest';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { group, start, trajectory } from '../harness.ts';
import { rl } from './support.ts';

const sampled = tokensOf('yes', special.end);
const time = '2026-01-05T09:00:00Z';
const exchange = {
  request: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  response: { id: 'r', object: 'chat.completion', created: 1, model: 'm', choices: [] },
  ...{ model: 'm', start_time: time, end_time: time },
};
const none = { chat_completions: [], completions: [], responses: [], messages: [] };

describe('exchanges of a trajectory', () => {
  test.each([
    ['in place of a conversation', { exchanges: { chat_completions: [exchange] }, reward: 1 }],
    ['with a conversation', trajectory(1, sampled, { exchanges: { ...none, messages: [exchange] } })],
    [
      'of a large one',
      trajectory(1, sampled, { exchanges: { responses: [exchange] }, logs: ['x'.repeat(500_000)] }),
    ],
  ])('are refused by name %s, in jobs and logs', async (_, given) => {
    const { call, createModel } = await start();
    const { id } = await createModel();
    const trajectory_groups = [group(given, trajectory(0, sampled))];
    for (const [path, body] of [
      [rl, { model_id: id, trajectory_groups }],
      [`/v1/preview/models/${id}/log`, { split: 'train', trajectory_groups }],
    ] as const) {
      const { status, body: answer } = await call('POST', path, body);
      expect(status).toBe(422);
      expect(answer.detail[0].loc.slice(-3)).toEqual(['trajectories', '0', 'exchanges']);
      expect(answer.detail[0].msg).toContain('messages_and_choices');
    }
  });

  test.each([[null], [{}], [none], [{ chat_completions: null }]])(
    'that are %j have no effect',
    async (exchanges) => {
      const { call, createModel, follow } = await start();
      const { id } = await createModel();
      const trajectory_groups = [group(trajectory(1, sampled, { exchanges }), trajectory(0, sampled))];
      const job = await call('POST', rl, { model_id: id, trajectory_groups });
      expect((await follow(job.body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
    },
  );
});
