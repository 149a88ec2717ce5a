import { special, tokensOf } from '../../support/scripted-engine.ts';
import { group, trajectory } from '../harness.ts';

export const sampled = tokensOf('yes', special.end);
export const groups = [group(trajectory(1, sampled), trajectory(0, sampled))];
export const unknown = '00000000-0000-4000-8000-000000000000';
export const rl = '/v1/preview/training-jobs';
export const sft = '/v1/preview/sft-training-jobs';

/** A line of training data: one question and this reply. */
export const line = (reply: string, fields: object = {}) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: reply },
    ],
    ...fields,
  });
