import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';

export const baseModel = 'martingale-tiny';
/** A logits processor that the service knows. */
export const processor = 'test.Stripes';

/** The service with the embedded engine and all optional features enabled, and its client. */
export async function startRealService() {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-model-'));
  const module = new URL('../engines/embedded/extensions/modules/stripes.ts', import.meta.url);
  const engine = await createEmbeddedEngine({ threads: 1, logitsProcessors: { [processor]: module } });
  const service = await startService({
    ...{ engine, dataFolder: join(folder, 'data'), priorityScheduling: true },
    log: () => undefined,
  });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const close = async () => {
    await client.close();
    await service.close();
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { engine, client, folder, close };
}

export type RealService = Awaited<ReturnType<typeof startRealService>>;
