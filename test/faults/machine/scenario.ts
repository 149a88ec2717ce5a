import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Answer, group, type Json, trajectory } from '../../service/harness.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import type { Started } from './started.ts';

const sampled = tokensOf('yes', special.end);
const groups = [group(trajectory(1, sampled), trajectory(0, sampled))];
const user = { role: 'user', content: 'hi' };
const jobs = '/v1/preview/training-jobs';

/** Ends the fault. Called when a request is first rejected, and when a job waits. */
export type Lift = () => void;

export interface Refusal {
  /** Name of the request. */
  of: string;
  code: string;
}

/**
 * Does one of everything that the service writes: a model, an upload, a log, jobs of both kinds, a fork, a constraint,
 * deletions. A request refused because of the machine is repeated with the same key after `lift` has ended the fault,
 * and must succeed then. Returns the refusals, and what jobs waited for.
 */
export async function useAll({ call, follow }: Started, name: string, lift: Lift): Promise<Refusal[]> {
  const refusals: Refusal[] = [];

  async function keyed(of: string, method: string, path: string, body?: object | string): Promise<Json> {
    const key = { 'idempotency-key': `${name} ${of}` };
    const send = () => call(method, path, body, method === 'POST' ? key : {});
    let answer = await send();
    if (answer.status === 503) {
      refusals.push({ of, code: codeOf(answer) });
      // Requests that write nothing still work.
      expect((await call('GET', '/v1/preview/models')).status).toBe(200);
      expect((await chat({})).status).toBe(200);
      lift();
      answer = await send();
    }
    expect(answer, of).toMatchObject({ status: 200 });
    return answer.body;
  }

  const chat = (fields: object) => call('POST', '/v1/chat/completions', { messages: [user], ...fields });

  /** Follows a job to its end. If it waits, ends the fault. */
  async function ended(of: string, id: string): Promise<Json[]> {
    for (;;) {
      const job = (await call('GET', `${jobs}/${id}`)).body;
      if (job.ended_at !== null) break;
      const check = await call('GET', '/v1/system-check');
      if (check.status === 503 && !check.body.training_queue.success) {
        refusals.push({ of, code: check.body.training_queue.error.split(':')[0] });
        lift();
        break;
      }
      // The service has the same processors.
      await pause(10);
    }
    const events = await follow(id);
    expect(events.at(-1), of).toMatchObject({ type: 'training_ended' });
    return events;
  }

  const model = await keyed('model', 'POST', '/v1/preview/models', {
    ...{ project: 'desk', name, base_model: 'scripted-tiny' },
  });
  const path = `/v1/preview/models/${model.id}`;
  const example = (reply: string) =>
    JSON.stringify({ messages: [user, { role: 'assistant', content: reply }] });
  const lines = ['a', 'b', 'c'].map((letter) => example(`${letter} ${name}`)).join('\n');
  const upload = await keyed('upload', 'POST', '/v1/preview/uploads', lines);
  await keyed('log', 'POST', `${path}/log`, { split: 'train', trajectory_groups: groups });
  const rl = await keyed('rl', 'POST', jobs, { model_id: model.id, trajectory_groups: groups });
  expect((await ended('rl job', rl.id)).map(toStory)).toEqual(['training_started', 1, 'step 1']);
  const sft = await keyed('sft', 'POST', '/v1/preview/sft-training-jobs', {
    ...{ model_id: model.id, training_data_url: upload.url, config: { batch_size: 1 } },
  });
  const story = ['training_started', 1, 1 / 2, 1 / 3, 'step 2'];
  expect((await ended('sft job', sft.id)).map(toStory)).toEqual(story);
  const fork = await keyed('fork', 'POST', `${path}/fork`, { name: `${name}-fork` });
  await keyed('constraint', 'POST', '/v1/chat/completions', {
    ...{ messages: [user], model: `local/desk/${name}`, structured_outputs: { regex: `[ab]{1,3}${name}` } },
  });
  await keyed('deleted checkpoint', 'DELETE', `${path}/checkpoints`, { steps: [1] });
  const group = await keyed('group', 'POST', `${path}/groups`, groups[0]);
  await keyed('second log', 'POST', `${path}/log`, { split: 'train', groups: [group.id] });
  await keyed('deleted model', 'DELETE', `/v1/preview/models/${fork.id}`);
  const { data } = (await call('GET', `${path}/checkpoints`)).body;
  expect(data.map(({ step }: Json) => step)).toEqual([0, 2]);
  return refusals;
}

function codeOf({ headers, body }: Answer): string {
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  expect(body.detail).toMatch(/Retry/);
  return body.error.code;
}

/** Summary of an event. */
const toStory = ({ type, data }: Json): string | number =>
  type === 'gradient_step' ? data.loss : type === 'training_ended' ? `step ${data.step}` : type;

const list = (...folder: string[]) => (existsSync(join(...folder)) ? readdirSync(join(...folder)) : []);

/** Temporary files that requests have left behind. Valid only while no job is unfinished. */
export const leftovers = (dataFolder: string): string[] => [
  ...list(dataFolder, 'jobs'),
  ...list(dataFolder, 'incoming'),
  ...list(dataFolder, 'uploads').filter((file) => !/^[0-9a-f]{64}\.jsonl$/.test(file)),
];

/** Files in the data folder without a record. Valid only for a service that has just started. */
export async function strayFiles({ call }: Started, dataFolder: string): Promise<string[]> {
  const stray = leftovers(dataFolder);
  const known = new Set<string>();
  for (let after = ''; ; ) {
    const { body } = await call('GET', `/v1/preview/models?limit=100${after}`);
    for (const { id } of body.data) known.add(id);
    if (!body.has_more) break;
    after = `&after=${body.last_id}`;
  }
  for (const id of list(dataFolder, 'models')) {
    if (!known.has(id)) stray.push(id);
    const { data } = (await call('GET', `/v1/preview/models/${id}/checkpoints`)).body;
    const steps = new Set(data.map(({ step }: Json) => `step-${step}`));
    stray.push(...list(dataFolder, 'models', id, 'checkpoints').filter((step) => !steps.has(step)));
  }
  return stray;
}
