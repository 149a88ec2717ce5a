import { afterAll, beforeAll, expect, it } from 'vitest';
import { chatCompletionRequestSchema, rlConfigSchema, sftConfigSchema } from '../../src/contract/index.ts';
import { combineEngines } from '../../src/engines/combined-engine.ts';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { createTinkerEngine } from '../../src/engines/tinker/index.ts';
import { startService } from '../../src/service/index.ts';
import { textOf } from '../readme/documents.ts';
import { callsTo, type Json } from '../service/harness.ts';
import { sharedFolder } from '../support/files.ts';
import { generateCheckpoint } from './embedded/checkpoint/generated.ts';
import { TinkerServer } from './tinker/tinker-server.ts';
import { chatTries, type Fields, itself, processor, supervisedTries, trainingTries } from './tries.ts';

const baseModels = ['martingale-tiny', 'checkpoint', 'remote'] as const;
const user = { role: 'user', content: 'hi' };

/** The rows of a table of the document: first cell, and one for each base model. */
async function rowsUnder(heading: string): Promise<Map<string, string[]>> {
  const text = await textOf('docs/engines.md');
  const [part = ''] = text.slice(text.indexOf(`## ${heading}\n`) + 3).split('\n## ');
  const cells = part
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
  return new Map(cells.map(([first = '', ...others]) => [first, others]));
}

const fieldsIn = (cell: string) => [...cell.matchAll(/`([a-z_0-9]+)`/g)].map(([, name]) => name as string);

const folder = sharedFolder();
/** Of a service with all three engines. */
let calls: ReturnType<typeof callsTo>;
/** A model of each, as the service tells it. */
let models: Map<string, Json>;
let close: () => Promise<void>;

beforeAll(async () => {
  const server = await TinkerServer.listen({ vocabularySize: 709 });
  const checkpoint = await generateCheckpoint(folder, 'qwen3');
  const stripes = new URL('embedded/extensions/modules/stripes.ts', import.meta.url);
  const engine = combineEngines([
    await createEmbeddedEngine({
      threads: 1,
      checkpoints: [{ folder: checkpoint, id: 'checkpoint' }],
      logitsProcessors: { [processor]: stripes },
    }),
    await createTinkerEngine({ url: server.tinker.url, checkpoint, id: 'remote', rank: 4 }),
  ]);
  const dataFolder = `${folder}/data`;
  const service = await startService({ engine, dataFolder, apiKey: 'test-key', priorityScheduling: true });
  close = async () => {
    await service.close();
    await engine.close();
    server.close();
  };
  calls = callsTo(service.url);
  models = new Map();
  for (const baseModel of baseModels) {
    const fields = { project: 'table', name: baseModel, base_model: baseModel };
    models.set(baseModel, (await calls.call('POST', '/v1/preview/models', fields)).body);
  }
});

afterAll(() => close?.());

/** Tries every row of a table with every base model. `attempt`: tells a refusal, or null when the fields work. */
async function holds(
  heading: string,
  tries: Readonly<Record<string, Fields>>,
  attempt: (baseModel: string, fields: Fields) => Promise<string | null>,
) {
  const rows = await rowsUnder(heading);
  expect([...rows.keys()]).toEqual(Object.keys(tries));
  const wrong: string[] = [];
  for (const [row, fields] of Object.entries(tries))
    for (const [column, baseModel] of baseModels.entries()) {
      const cell = rows.get(row)?.[column] ?? '';
      expect(cell).toMatch(/^(works|other means|refused)/);
      const refusal = await attempt(baseModel, fields);
      const isNamed = refusal === null || fieldsIn(row).some((name) => refusal.includes(name));
      if ((refusal !== null) !== cell.startsWith('refused') || !isNamed)
        wrong.push(`${row} of ${baseModel}: ${cell}, but ${refusal ?? 'it works'}`);
    }
  expect(wrong).toEqual([]);
}

/** Every field is in the first cell of a row. */
function expectFields(names: string[], tries: Readonly<Record<string, Fields>>) {
  const listed = new Set(Object.keys(tries).flatMap(fieldsIn));
  expect(names.filter((name) => !listed.has(name))).toEqual([]);
}

const chatWith = (model: string, fields: Fields): Promise<Response> =>
  calls.raw('POST', '/v1/chat/completions', { model, messages: [user], max_tokens: 4, ...fields });

it('every field of a chat works or is refused by name, as the table of engines says', async () => {
  expectFields(Object.keys(chatCompletionRequestSchema.shape), chatTries);
  await holds('Chats', chatTries, async (model, fields) => {
    const response = await chatWith(model, fields);
    const text = await response.text();
    expect([200, 422]).toContain(response.status);
    return response.status === 200 ? null : text;
  });
});

async function jobOf(path: string, job: Fields): Promise<string | null> {
  const { call, follow } = calls;
  const { status, body } = await call('POST', path, job);
  if (status !== 200) return JSON.stringify(body);
  const last = (await follow(body.id)).at(-1);
  return last.type === 'training_ended' ? null : JSON.stringify(last);
}

it('every field of a job works or is refused by name before it begins, as the table of engines says', {
  timeout: 60_000,
}, async () => {
  expectFields(Object.keys(rlConfigSchema.shape), trainingTries);
  await holds('Jobs of reinforcement learning', trainingTries, async (baseModel, fields) => {
    const { id, entity, project, name } = models.get(baseModel);
    const config = Object.fromEntries(
      Object.entries(fields).map(([field, value]) => [
        field,
        value === itself ? `${entity}/${project}/${name}:step0` : value,
      ]),
    );
    const sampled = { n: 2, logprobs: true, return_token_ids: true };
    const response = await chatWith(`${entity}/${project}/${name}`, sampled);
    const { choices } = (await response.json()) as Json;
    const trajectories = choices.map((choice: Json, reward: number) => ({
      messages_and_choices: [user, choice],
      reward,
    }));
    const job = { model_id: id, trajectory_groups: [{ trajectories }], experimental_config: config };
    return jobOf('/v1/preview/training-jobs', job);
  });
});

it('a teacher on another engine is refused by name', async () => {
  const response = await chatWith('local/table/checkpoint', {
    logprobs: true,
    return_token_ids: true,
  });
  const { choices } = (await response.json()) as Json;
  const { status, body } = await calls.call('POST', '/v1/preview/training-jobs', {
    model_id: models.get('checkpoint')?.id,
    trajectory_groups: [{ trajectories: [{ messages_and_choices: [user, choices[0]], reward: 1 }] }],
    experimental_config: { kl_penalty_coef: 1, kl_penalty_reference_model: 'local/table/remote' },
  });
  expect([status, body.detail[0].loc.at(-1)]).toEqual([422, 'kl_penalty_reference_model']);
  expect(body.detail[0].msg).toMatch(/remote is on the engine tinker and checkpoint on embedded/);
});

it('every field of a supervised job works, as the table of engines says', { timeout: 60_000 }, async () => {
  expectFields(Object.keys(sftConfigSchema.shape), supervisedTries);
  const example = { messages: [user, { role: 'assistant', content: 'yes' }] };
  const { body: upload } = await calls.call('POST', '/v1/preview/uploads', JSON.stringify(example));
  await holds('Supervised jobs', supervisedTries, (baseModel, config) => {
    const job = {
      model_id: models.get(baseModel).id,
      training_data_url: upload.url,
      config,
    };
    return jobOf('/v1/preview/sft-training-jobs', job);
  });
});
