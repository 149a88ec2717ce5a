import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Access } from '../../src/service/access.ts';
import { baseModelTools, ModelResolver } from '../../src/service/inference/resolve-model.ts';
import { DataFiles } from '../../src/service/store/files.ts';
import { openSqliteStore } from '../../src/service/store/sqlite-store.ts';
import type { CheckpointRecord } from '../../src/service/store/store.ts';
import { temporaryFolder } from '../support/files.ts';
import { baseModel, door, ScriptedEngine } from '../support/scripted-engine.ts';

const all = new Access({ entity: null, tenant: 'test' });
const createdAt = new Date(0).toISOString();

test('a name that is resolved during a new checkpoint does not keep its old result', async () => {
  const folder = await temporaryFolder();
  const files = await DataFiles.open(folder);
  const store = openSqliteStore(join(folder, 'store.sqlite'));
  onTestFinished(() => store.close());
  const modelId = randomUUID();
  const checkpoint = (step: number): CheckpointRecord => ({
    ...{ id: `step-${step}`, modelId, step, metrics: {}, createdAt },
    folder: step === 0 ? null : files.checkpointFolder(modelId, step),
  });
  const names = { entity: 'local', project: 'desk', name: 'agent' };
  await store.insertModel(
    { id: modelId, ...names, baseModel: baseModel.id, createdAt, lastStep: 0, forkedFrom: null },
    checkpoint(0),
  );
  const engine = new ScriptedEngine();
  const resolver = new ModelResolver(engine, store, files, baseModelTools(engine));
  const held = door();
  const read = store.newestCheckpoint.bind(store);
  store.newestCheckpoint = async (id) => {
    const newest = await read(id);
    await held.wait();
    return newest;
  };

  const early = resolver.resolve('local/desk/agent', all);
  await held.reached;
  const job = { id: 'job', modelId, kind: 'rl', status: 'queued', createdAt } as const;
  const nothing = {
    startedAt: null,
    endedAt: null,
    errorMessage: null,
    step: null,
    untrained: null,
    uploadSha256: null,
    groupIds: null,
    traceparent: null,
    tenant: 'key',
  };
  await store.insertJob({ ...job, ...nothing, resolvedConfig: {} });
  await store.finishJob(
    job.id,
    createdAt,
    { status: 'succeeded', checkpoint: checkpoint(1), untrained: null },
    { id: 'event', type: 'training_ended', data: {} },
  );
  resolver.forget();
  held.open();

  expect((await early).pinnedName).toBe('local/desk/agent:step0');
  expect((await resolver.resolve('local/desk/agent', all)).pinnedName).toBe('local/desk/agent:step1');
});
