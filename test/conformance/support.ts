import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import type { Engine } from '../../src/engines/engine.ts';
import { startService } from '../../src/service/index.ts';
import { type TestedModel, tinyModel } from '../support/base-models.ts';

export const baseModel = 'martingale-tiny';
export const apiKey = 'conformance-key';

/** A real service with the embedded engine and a base model, for the tests of a file or of a `describe`. */
export function service({ open }: TestedModel = tinyModel): {
  readonly url: string;
  readonly engine: Engine;
} {
  let url = '';
  let engine: Engine;
  let close = async () => {};
  beforeAll(async () => {
    const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-conformance-'));
    engine = await open();
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
    get engine() {
      return engine;
    },
  };
}
