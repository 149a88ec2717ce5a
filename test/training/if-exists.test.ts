import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient, type IfExists, openModel, type RunEvent, train } from 'martingale';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startTrainingWorld } from '../faults/network/training-world.ts';
import { start } from '../service/harness.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';

let world: Awaited<ReturnType<typeof startTrainingWorld>>;
beforeAll(async () => {
  world = await startTrainingWorld({ knowsKeys: true });
});
afterAll(() => world?.[Symbol.asyncDispose]());

const open = (name: string, ifExists?: IfExists) =>
  openModel({ client: world.client, project: 'names', name, baseModel: 'scripted-tiny', ifExists });

/** Runs one step, and returns the outcome. */
async function run(directory: string, model: { name: string; ifExists?: IfExists }, more: object = {}) {
  const events: RunEvent[] = [];
  const runDirectory = join(world.folder, directory);
  const result = await train({
    ...world.settings,
    model: { project: 'names', baseModel: 'scripted-tiny', ...model },
    runDirectory,
    steps: 1,
    onEvent: (event) => events.push(event),
    ...more,
  });
  const started = events.find(({ type }) => type === 'run_started');
  const config = JSON.parse(await readFile(join(runDirectory, 'config.json'), 'utf8'));
  return { model: result.model.name, started, config };
}

test('an existing model is opened, refused, or replaced by one with the next free name', async () => {
  const first = await open('desk');
  expect(first.name).toBe('local/names/desk:step0');
  expect((await open('desk')).id).toBe(first.id);
  expect((await open('desk', 'continue')).id).toBe(first.id);
  await expect(open('desk', 'error')).rejects.toMatchObject({
    code: 'model_exists',
    message: expect.stringMatching(/names\/desk already.*another `name`.*'continue'.*'new'/),
  });
  expect((await open('desk', 'new')).name).toBe('local/names/desk-2:step0');
  expect((await open('desk', 'new')).name).toBe('local/names/desk-3:step0');
  expect((await open('fresh', 'error')).name).toBe('local/names/fresh:step0');
});

test('a model with another base model is refused, with its base model and advice', async () => {
  const baseModels = [baseModel, { ...baseModel, id: 'scripted-large' }];
  const engine = Object.assign(new ScriptedEngine(), { baseModels });
  const { service } = await start({ engine });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  onTestFinished(() => client.close());
  const model = { project: 'names', name: 'desk', baseModel: 'scripted-tiny' };
  await openModel({ client, ...model });
  const refusal = {
    code: 'base_model_mismatch',
    message: expect.stringMatching(
      /"local\/names\/desk" .* from "scripted-tiny", not from "scripted-large"\. .*another name.*`ifExists: 'new'`/,
    ),
  };
  const other = { ...model, baseModel: 'scripted-large' };
  await expect(openModel({ client, ...other })).rejects.toMatchObject(refusal);
  await expect(openModel({ client, ...other, entity: 'local' })).rejects.toMatchObject(refusal);
  const training = train({
    ...world.settings,
    client,
    model: other,
    runDirectory: join(world.folder, 'other-base'),
    steps: 1,
  });
  await expect(training).rejects.toMatchObject(refusal);
  expect((await openModel({ client, ...other, ifExists: 'new' })).name).toBe('local/names/desk-2:step0');
});

test('programs that open a new model at the same time get one each', async () => {
  const handles = await Promise.all(Array.from({ length: 8 }, () => open('rush', 'new')));
  expect(new Set(handles.map(({ id }) => id)).size).toBe(8);
  const names = ['', '-2', '-3', '-4', '-5', '-6', '-7', '-8'].map((end) => `local/names/rush${end}:step0`);
  expect(handles.map(({ name }) => name).sort()).toEqual(names.sort());
});

test('another value is refused, by train before anything starts', async () => {
  const ifExists = JSON.parse('"rename"');
  const refusal = { code: 'invalid_model_option', message: expect.stringContaining('continue, error, new') };
  await expect(open('desk', ifExists)).rejects.toMatchObject(refusal);
  await expect(run('never', { name: 'desk', ifExists })).rejects.toMatchObject(refusal);
});

test('a run reports the step that it starts from, and uses no existing model if it must not', async () => {
  const first = await run('first', { name: 'clerk' });
  expect(first.started).toMatchObject({ model: 'local/names/clerk:step0', fromStep: 0 });
  const second = await run('second', { name: 'clerk' });
  expect(second.started).toMatchObject({ model: 'local/names/clerk:step1', fromStep: 1 });
  await expect(run('third', { name: 'clerk', ifExists: 'error' })).rejects.toMatchObject({
    code: 'model_exists',
  });
  const fourth = await run('fourth', { name: 'clerk', ifExists: 'new' });
  expect(fourth.started).toMatchObject({ model: 'local/names/clerk-2:step0', fromStep: 0 });
  expect(fourth.model).toBe('local/names/clerk-2:step1');
});

test.each<IfExists | undefined>(['new', 'error', 'continue', undefined])(
  'a run that began with `new` goes on with its own model where it is resumed with %s',
  async (ifExists) => {
    const name = `own-${ifExists}`;
    await open(name);
    await run(name, { name, ifExists: 'new' });
    const resumed = await run(name, { name, ...(ifExists && { ifExists }) }, { steps: 2, resume: true });
    expect(resumed.model).toBe(`local/names/${name}-2:step2`);
    expect(resumed.started).toMatchObject({ fromStep: 0, finishedSteps: 1 });
    // Its actual name works too.
    const again = await run(name, { name: `${name}-2` }, { steps: 3, resume: true });
    expect(again.model).toBe(`local/names/${name}-2:step3`);
  },
);

test('a run does not resume with another model', async () => {
  await run('other', { name: 'one' });
  await expect(run('other', { name: 'two', ifExists: 'new' }, { resume: true })).rejects.toMatchObject({
    code: 'resume_refused',
    message: expect.stringMatching(/^The run trains local\/names\/one, and `model` is .*two/),
  });
});
