import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { startService } from '../../src/service/index.ts';

export const baseModel = 'martingale-tiny';
export const apiKey = 'conformance-key';

/** A real service with the embedded engine, for the tests of a file. */
export function service(): { readonly url: string } {
  let url = '';
  let close = async () => {};
  beforeAll(async () => {
    const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-conformance-'));
    const engine = await createEmbeddedEngine({ threads: 1 });
    const running = await startService({ engine, dataFolder, apiKey, closeTimeoutMs: 1000 });
    url = running.url;
    close = async () => {
      await running.close();
      await engine.close();
      await rm(dataFolder, { recursive: true });
    };
  });
  afterAll(() => close());
  return {
    get url() {
      return url;
    },
  };
}
