import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { generateText } from 'ai';
import {
  type Client,
  createClient,
  defineEnvironment,
  openModel,
  type TrainSettings,
  train,
} from 'martingale';
import { z } from 'zod';
import type { ClientOptions } from '../../../src/client/index.ts';
import { startService } from '../../../src/service/index.ts';
import { CoinEngine } from '../../training/resume/coin-engine.ts';
import { startPlainService } from './plain-service.ts';
import { type Fault, FaultyProxy, type ProxiedRequest, pass } from './proxy.ts';

export const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model }) =>
    (await generateText({ model: model.languageModel, prompt: `toss ${id}`, maxRetries: 0 })).text,
  rewards: { success: ({ outcome }) => Number(outcome) },
});

export interface TrainingWorldOptions {
  /** Whether the service supports idempotency keys and the other extensions of ours. */
  knowsKeys: boolean;
  client?: Partial<ClientOptions>;
}

/** Options that a test may change. */
type RunOptions = Partial<
  Pick<
    TrainSettings<typeof environment.scenario, string>,
    'steps' | 'resume' | 'lostJob' | 'seed' | 'validation' | 'signal' | 'warmStart' | 'onEvent'
  >
>;

/** A service behind a proxy, and runs that train through it. */
export async function startTrainingWorld({ knowsKeys, client: options }: TrainingWorldOptions) {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-network-'));
  const engine = new CoinEngine();
  const service = await startService({
    engine,
    dataFolder: join(folder, 'data'),
    apiKey: 'key',
    closeTimeoutMs: 500,
  });
  const plain = knowsKeys ? undefined : await startPlainService(service.url);
  const proxy = await FaultyProxy.start(plain?.url ?? service.url);
  const clients: Client[] = [];
  const connect = (baseUrl: string, more: Partial<ClientOptions> = {}) => {
    const client = createClient({
      ...{ baseUrl, apiKey: 'key', backoffMs: 1 },
      dialect: knowsKeys ? 'standard' : 'deployed',
      ...options,
      ...more,
    });
    clients.push(client);
    return client;
  };
  const end = async () => {
    await Promise.all(clients.map((client) => client.close()));
    await proxy[Symbol.asyncDispose]();
    await plain?.close();
    await service.close();
    await rm(folder, { recursive: true, force: true });
  };
  const client = connect(proxy.url);
  /** Without the proxy. */
  const direct = connect(service.url, { dialect: 'standard' });
  const model = { project: 'network', name: 'coin', baseModel: 'scripted-tiny' };
  const runDirectory = join(folder, 'run');
  const settings = {
    ...{ environment, client, model, runDirectory },
    scenarios: [0, 1, 2, 3, 4].map((id) => ({ id })),
    ...{ steps: 3, groupsPerStep: 2, rolloutsPerGroup: 4, seed: 3 },
  };
  return {
    ...{ engine, service, proxy, client, direct, folder, settings, runDirectory, connect },
    train: (more: RunOptions = {}) => train({ ...settings, ...more }),
    open: (through: Client = client) => openModel({ client: through, ...model }),
    /** Steps of the model's checkpoints, oldest first. */
    async checkpoints(): Promise<number[]> {
      const { id = '' } = await openModel({ client: direct, ...model });
      return (await direct.models.checkpoints.list(id, { limit: 100 })).data.map(({ step }) => step);
    },
    /** Closes the service, and runs a counting query on its database. */
    async count(sql: string): Promise<number> {
      await service.close();
      const database = new DatabaseSync(join(folder, 'data', 'martingale.sqlite'), { readOnly: true });
      try {
        return Number(database.prepare(sql).get()?.n);
      } finally {
        database.close();
      }
    },
    [Symbol.asyncDispose]: end,
    jobRecord: async (step: number) =>
      JSON.parse(await readFile(join(runDirectory, 'jobs', `step-000${step}.json`), 'utf8')),
  };
}

/** Applies the fault to the matching request of that number. */
export function faultAt(
  proxy: FaultyProxy,
  fault: Fault,
  matches: (request: ProxiedRequest) => boolean,
  at = 0,
): { met: () => number } {
  let count = 0;
  proxy.fault = (request) => (matches(request) && count++ === at ? fault : pass);
  return { met: () => count };
}

export const createsJob = ({ method, path }: ProxiedRequest) =>
  method === 'POST' && /\/(sft-)?training-jobs$/.test(path);
