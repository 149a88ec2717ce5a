import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startService } from '../../../src/service/index.ts';
import { type TestedModel, tinyModel } from '../../support/base-models.ts';
import { callsTo, type Json } from '../harness.ts';

/** The service with the embedded engine, on a free port and in its own folder. */
export async function startEmbedded({ baseModel, open }: TestedModel = tinyModel) {
  const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-jobs-'));
  const engine = await open();
  const service = await startService({ engine, dataFolder, apiKey: 'test-key', log: () => undefined });
  const { raw, follow, call: send } = callsTo(service.url);
  /** Returns the answer's body; throws for any status but 200. */
  const call = async (method: string, path: string, body?: unknown): Promise<Json> => {
    const answer = await send(method, path, body);
    if (answer.status !== 200)
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const createModel = (name: string): Promise<Json> =>
    call('POST', '/v1/preview/models', {
      ...{ entity: 'team', project: 'desk', name, base_model: baseModel },
    });
  /** Runs a job and returns its `gradient_step` events. Throws if it fails. */
  const run = async (path: 'training-jobs' | 'sft-training-jobs', body: object): Promise<Json[]> => {
    const { id } = await call('POST', `/v1/preview/${path}`, body);
    const events = await follow(id);
    const last = events.at(-1);
    if (last?.type !== 'training_ended') throw new Error(JSON.stringify(last));
    return events.filter(({ type }) => type === 'gradient_step').map(({ data }) => data);
  };
  const sft = async (modelId: string, lines: object[], config: object): Promise<Json[]> => {
    const upload = await call(
      'POST',
      '/v1/preview/uploads',
      lines.map((line) => JSON.stringify(line)).join('\n'),
    );
    return run('sft-training-jobs', { model_id: modelId, training_data_url: upload.url, config });
  };
  const close = async () => {
    await service.close();
    await engine.close();
    await rm(dataFolder, { recursive: true, force: true });
  };
  return { baseModel, engine, service, raw, call, createModel, run, sft, close };
}

export type EmbeddedService = Awaited<ReturnType<typeof startEmbedded>>;
