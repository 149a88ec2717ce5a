import { join } from 'node:path';
import { type Client, createClient } from 'martingale';
import { type RunningService, startService } from 'martingale/service';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { findModel, findTrainedModel } from '../../src/cli/find-model.ts';
import { sharedFolder } from '../support/files.ts';
import { startServer } from '../support/http-server.ts';
import { withoutCheckpoints } from '../support/model-pages.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';

const folder = sharedFolder();
let service: RunningService;
let client: Client;

beforeAll(async () => {
  service = await startService({ engine: new ScriptedEngine(), dataFolder: join(folder, 'data') });
  client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  for (const [entity, project, name] of [
    ['a', 'shop', 'desk'],
    ['b', 'shop', 'desk'],
    ['a', 'desk', 'seed-1'],
  ] as const)
    await client.models.create({ entity, project, name, base_model: baseModel.id });
});
afterAll(async () => {
  await client?.close();
  await service?.close();
});

describe('the name of a model on the command line', () => {
  it.each([
    ['desk/seed-1', 'a/desk/seed-1'],
    ['desk/seed-1:step0', 'a/desk/seed-1:step0'],
    ['a/desk/seed-1', 'a/desk/seed-1'],
    ['b/shop/desk:step0', 'b/shop/desk:step0'],
    [baseModel.id, baseModel.id],
  ])('%s is %s', async (text, name) => {
    expect(await findModel(client, text)).toMatchObject({ name });
  });

  it.each([
    ['desk/sed-1', /There is no model desk\/sed-1.*Did you mean a\/desk\/seed-1\?/],
    ['a/desk/seed1:step0', /Did you mean a\/desk\/seed-1\?/],
    ['seed-1', /Did you mean a\/desk\/seed-1\?/],
    ['nothing/like/it', /The service has .*a\/shop\/desk/],
    ['shop/desk', /shop\/desk may be [ab]\/shop\/desk or [ab]\/shop\/desk: name its entity too/],
    ['desk/seed-1:step7', /a\/desk\/seed-1 has no step 7, but step 0/],
    [`${baseModel.id}:step1`, /There is no model/],
  ])('%s is refused with names that are there', async (text, message) => {
    await expect(findModel(client, text)).rejects.toThrow(message);
  });

  it('of a base model has no checkpoints', async () => {
    await expect(findTrainedModel(client, baseModel.id)).rejects.toMatchObject({ code: 'model_not_found' });
  });

  it.each([
    [404, 'application/json', '{}'],
    [404, 'text/plain', '404 page not found'],
    [405, 'text/plain', 'Method Not Allowed'],
    [501, 'application/json', '{}'],
  ])(
    'is taken as it is by a service that answers a list of models with %d %s',
    async (status, type, body) => {
      const { url, close } = await startServer((_, response) =>
        response.writeHead(status, { 'content-type': type }).end(body),
      );
      onTestFinished(close);
      const other = createClient({ baseUrl: url, apiKey: 'key', retries: 0 });
      onTestFinished(() => other.close());
      expect(await findModel(other, 'org/any:step3')).toEqual({ name: 'org/any:step3', step: undefined });
    },
  );

  it('with a step is refused for a model without checkpoints', async () => {
    const { url, close } = await startServer(withoutCheckpoints);
    onTestFinished(close);
    const other = createClient({ baseUrl: url, apiKey: 'key' });
    onTestFinished(() => other.close());
    await expect(findTrainedModel(other, 'shop/desk:step3')).rejects.toThrow(
      'a/shop/desk has no checkpoints, so it has no step 3.',
    );
  });
});
