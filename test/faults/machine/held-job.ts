import { rmSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Answer, group, type Json, trajectory } from '../../service/harness.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';

type Call = (method: string, path: string, body?: object) => Promise<Answer>;

const sampled = tokensOf('yes', special.end);
const jobs = '/v1/preview/training-jobs';

/** Polls until the condition holds. */
export async function until(call: Call, path: string, isSo: (answer: Answer) => boolean): Promise<Answer> {
  for (;;) {
    const answer = await call('GET', path);
    if (isSo(answer)) return answer;
    // The service has the same processors.
    await pause(10);
  }
}

/** A job of a new model that is held in its first gradient step until it is released. */
export async function heldJob(call: Call, hold: string, name: string) {
  writeFileSync(hold, '');
  const model = await call('POST', '/v1/preview/models', {
    ...{ project: 'held', name, base_model: 'scripted-tiny' },
  });
  const groups = [group(trajectory(1, sampled), trajectory(0, sampled))];
  const { body } = await call('POST', jobs, { model_id: model.body.id, trajectory_groups: groups });
  await until(call, `${jobs}/${body.id}`, (job) => job.body.status === 'running');
  return {
    id: String(body.id),
    modelId: String(model.body.id),
    release: () => rmSync(hold, { force: true }),
    /** After its release the job waits for the machine, with this reason. */
    waits: async (code: string) => {
      const { body: check } = await until(call, '/v1/system-check', (answer) => {
        return answer.body.training_queue?.success === false;
      });
      expect(check.training_queue.error).toMatch(code);
    },
    /** The job ends like any other. */
    ended: async (follow: (id: string) => Promise<Json[]>) => {
      const events = await follow(body.id);
      expect(events.map(({ type }) => type)).toEqual(['training_started', 'gradient_step', 'training_ended']);
      const job = await call('GET', `${jobs}/${body.id}`);
      expect(job.body).toMatchObject({ status: 'succeeded', step: 1, error_message: null });
    },
  };
}
