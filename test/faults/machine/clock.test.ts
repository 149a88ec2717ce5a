import { createClient } from 'martingale';
import { KeyStore } from 'martingale/service';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { type Answer, type Json, start } from '../../service/harness.ts';
import { groups, rl } from '../../service/jobs/support.ts';
import { door } from '../../support/scripted-engine.ts';

const hourMs = 3_600_000;
const yearMs = 365 * 24 * hourMs;

/** Moves what `Date` says. The monotonic clock continues. */
function jump(byMs: number): void {
  vi.setSystemTime(Date.now() + byMs);
}

function takeOverTheClock(): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
}

afterEach(() => {
  vi.useRealTimers();
});

test('jobs, events, pages and keys keep their order while the clock jumps by hours and years', async () => {
  takeOverTheClock();
  const { call, createModel, engine, follow, dataFolder, chat } = await start();
  const keys = await KeyStore.open(dataFolder);
  onTestFinished(() => keys.close());
  const { key } = keys.create('before');
  const health = async () =>
    (await call('GET', '/v1/health', undefined, { authorization: `Bearer ${key}` })).status;
  const held = door();
  engine.hold = async (place) => {
    if (place === 'train') await held.wait();
  };
  const jumps = [10 * yearMs, -20 * yearMs, 5 * hourMs, -hourMs, 3 * yearMs];
  const models: Json[] = [await createModel({ name: 'm0' })];
  const [first] = models;
  const jobs: string[] = [];
  const submit = async () => {
    const job: Answer = await call('POST', rl, { model_id: first.id, trajectory_groups: groups });
    jobs.push(job.body.id);
  };
  await submit();
  await held.reached;
  for (const [index, byMs] of jumps.entries()) {
    jump(byMs);
    await submit();
    models.push(await createModel({ name: `m${index + 1}` }));
    expect(await health()).toBe(200);
    expect((await chat({ chat_template: '{{ messages[0].content }}' })).status).toBe(200);
    expect((await call('GET', '/v1/system-check')).status).toBe(200);
  }
  const following = follow(jobs[0] ?? '');
  jump(-30 * yearMs);
  engine.hold = null;
  held.open();
  expect((await following).map(({ type }) => type)).toEqual([
    'training_started',
    'gradient_step',
    'training_ended',
  ]);
  for (const [index, id] of jobs.entries())
    expect((await follow(id)).at(-1)).toMatchObject({ data: { step: index + 1 } });

  const listed = async (path: string): Promise<Json[]> => (await call('GET', path)).body.data;
  const names = models.map(({ name }) => name);
  expect((await listed('/v1/preview/models?order=asc')).map(({ name }) => name)).toEqual(names);
  expect((await listed('/v1/preview/models?order=desc')).map(({ name }) => name)).toEqual(names.reverse());
  const checkpoints = await listed(`/v1/preview/models/${first.id}/checkpoints?order=asc`);
  expect(checkpoints.map(({ step }) => step)).toEqual([0, ...jobs.map((_, index) => index + 1)]);
  keys.revoke(keys.list()[0]?.id ?? '');
  expect(await health()).toBe(401);
});

test('a call in flight keeps its deadline, whatever the clock says', async () => {
  takeOverTheClock();
  const { service, engine } = await start();
  const client = createClient({ baseUrl: `${service.url}/v1`, apiKey: 'test-key' });
  const held = door();
  engine.hold = held.wait;
  const chat = client.chat.completions.create({
    model: 'scripted-tiny',
    messages: [{ role: 'user', content: 'hi' }],
  });
  await held.reached;
  jump(10 * yearMs);
  jump(-20 * yearMs);
  held.open();
  expect((await chat).choices[0]?.message.content).toBe('hello');
});
