import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '../../../src/client/index.ts';
import type { TrajectoryGroupBody } from '../../../src/contract/index.ts';
import { group, trajectory } from '../../service/harness.ts';
import { baseModel } from '../../support/scripted-engine.ts';

/** What an operation works on: its own model in its own project. */
export interface Subject {
  project: string;
  modelId: string;
  jobId: string;
  /** Identifies its samples. */
  seed: number;
}

/** Which temporary failures may be retried: see `Repeat` of the client. */
type Kind = 'harmless' | 'sampling';

export interface Operation {
  name: string;
  kind: Kind;
  /** The request of the operation, and one that it may make before. */
  method: string;
  path: RegExp;
  before?: RegExp;
  /** Created beforehand, without the proxy. */
  needs?: 'model' | 'job' | 'checkpoint';
  run: (client: Client, subject: Subject) => Promise<unknown>;
  /** SQL that counts its effects in the service's database. The count must be 1 in the end. */
  effect?: string;
  /** Whether the body of the answer is ignored, because the interface does not specify it. */
  openBody?: boolean | undefined;
}

export const groups: TrajectoryGroupBody[] = [
  group(trajectory(0, [104, 105, 258]), trajectory(1, [106, 258])) as TrajectoryGroupBody,
];
export const example = `${JSON.stringify({
  messages: [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'yes' },
  ],
})}\n`;
const messages = [{ role: 'user' as const, content: 'hi' }];

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const jobs = 'SELECT count(*) AS n FROM jobs JOIN models ON models.id = jobs.model_id WHERE project = ?';

/** Every call of the client. */
export const operations: readonly Operation[] = [
  {
    ...{ name: 'create model', kind: 'harmless', method: 'POST', path: /\/models$/ },
    run: (client, { project }) => client.models.create({ project, base_model: baseModel.id }),
    effect: 'SELECT count(*) AS n FROM models WHERE project = ?',
  },
  {
    ...{ name: 'get model', kind: 'harmless', method: 'GET', path: /\/models\/[^/]+$/, needs: 'model' },
    run: (client, { modelId }) => client.models.get(modelId),
  },
  {
    ...{ name: 'list models', kind: 'harmless', method: 'GET', path: /\/preview\/models$/ },
    run: (client) => client.models.list(),
  },
  {
    ...{ name: 'delete model', kind: 'harmless', method: 'DELETE', path: /\/models\/[^/]+$/, needs: 'model' },
    run: (client, { modelId }) => client.models.delete(modelId),
    effect: 'SELECT 1 - count(*) AS n FROM models WHERE project = ?',
  },
  {
    ...{ name: 'fork', kind: 'harmless', method: 'POST', path: /\/fork$/, needs: 'model' },
    run: (client, { modelId, project }) => client.models.fork(modelId, { project }),
    // The model and its one fork.
    effect: 'SELECT count(*) - 1 AS n FROM models WHERE project = ?',
  },
  {
    ...{ name: 'log', kind: 'harmless', method: 'POST', path: /\/log$/, needs: 'model' },
    run: (client, { modelId }) => client.models.log(modelId, { split: 'train', trajectory_groups: groups }),
    effect: 'SELECT count(*) AS n FROM logs JOIN models ON models.id = logs.model_id WHERE project = ?',
    openBody: true,
  },
  {
    ...{ name: 'store group', kind: 'harmless', method: 'POST', path: /\/groups$/, needs: 'model' },
    run: (client, { modelId }) => client.models.storeGroup(modelId, groups[0] ?? { trajectories: [] }),
    effect: 'SELECT count(*) AS n FROM groups JOIN models ON models.id = groups.model_id WHERE project = ?',
  },
  {
    ...{ name: 'upload', kind: 'harmless', method: 'POST', path: /\/uploads$/ },
    run: (client, { seed }) => client.uploads.create(example.replace('yes', String(seed))),
  },
  {
    ...{ name: 'create RL job', kind: 'harmless', method: 'POST', path: /\/training-jobs$/, needs: 'model' },
    run: (client, { modelId }) =>
      client.trainingJobs.create({ model_id: modelId, trajectory_groups: groups }),
    effect: jobs,
  },
  {
    ...{ name: 'create SFT job', kind: 'harmless', method: 'POST', path: /\/sft-training-jobs$/ },
    ...{ needs: 'model', before: /\/uploads$/ },
    run: async (client, { modelId }) => {
      const { url } = await client.uploads.create(example);
      return client.sftTrainingJobs.create({ model_id: modelId, training_data_url: url });
    },
    effect: jobs,
  },
  {
    ...{ name: 'get job', kind: 'harmless', method: 'GET', path: /\/training-jobs\/[^/]+$/, needs: 'job' },
    run: (client, { jobId }) => client.trainingJobs.get(jobId),
  },
  {
    ...{ name: 'cancel job', kind: 'harmless', method: 'POST', path: /\/cancel$/, needs: 'job' },
    run: (client, { jobId }) => client.trainingJobs.cancel(jobId),
    effect: `SELECT count(*) AS n FROM events JOIN jobs ON jobs.id = job_id JOIN models ON models.id = model_id
      WHERE type = 'training_failed' AND status = 'cancelled' AND project = ?`,
  },
  {
    ...{ name: 'events by page', kind: 'harmless', method: 'GET', path: /\/events$/, needs: 'checkpoint' },
    run: (client, { jobId }) => all(client.trainingJobs.events(jobId, { limit: 1 })),
  },
  {
    ...{ name: 'follow', kind: 'harmless', method: 'GET', path: /\/events$/, needs: 'checkpoint' },
    run: (client, { jobId }) => all(client.trainingJobs.follow(jobId, { idleTimeoutMs: 500 })),
  },
  {
    ...{ name: 'list checkpoints', kind: 'harmless', method: 'GET', path: /\/checkpoints$/ },
    needs: 'checkpoint',
    run: (client, { modelId }) => all(client.models.checkpoints.list(modelId, { limit: 1 })),
  },
  {
    ...{ name: 'delete checkpoints', kind: 'harmless', method: 'DELETE', path: /\/checkpoints$/ },
    needs: 'checkpoint',
    run: (client, { modelId }) => client.models.checkpoints.delete(modelId, { steps: [1] }),
  },
  {
    ...{ name: 'download', kind: 'harmless', method: 'GET', path: /\/download$/, needs: 'model' },
    run: async (client, { modelId }) => {
      const folder = await mkdtemp(join(tmpdir(), 'martingale-network-'));
      try {
        const file = join(folder, 'weights');
        await client.models.checkpoints.downloadTo(modelId, 0, file);
        return await readFile(file, 'utf8');
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  },
  {
    ...{ name: 'chat', kind: 'sampling', method: 'POST', path: /\/chat\/completions$/ },
    run: (client, { seed }) => client.chat.completions.create({ model: baseModel.id, messages, seed }),
  },
  {
    ...{ name: 'chat stream', kind: 'sampling', method: 'POST', path: /\/chat\/completions$/ },
    run: async (client, { seed }) =>
      all(await client.chat.completions.create({ model: baseModel.id, messages, seed, stream: true })),
  },
  {
    ...{ name: 'inference models', kind: 'harmless', method: 'GET', path: /\/v1\/models$/ },
    run: (client) => client.inferenceModels.list(),
  },
  {
    ...{ name: 'health', kind: 'harmless', method: 'GET', path: /\/health$/, openBody: true },
    run: (client) => client.health(),
  },
  {
    ...{ name: 'system check', kind: 'harmless', method: 'GET', path: /\/system-check$/ },
    run: (client) => client.systemCheck(),
  },
  {
    ...{ name: 'interface', kind: 'harmless', method: 'GET', path: /\/openapi\.json$/ },
    run: (client) => client.openApi(),
  },
];
