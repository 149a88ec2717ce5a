import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEmbeddedEngine, type EmbeddedEngineOptions } from '../../src/engines/embedded/index.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { type Family, generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';

type Options = Omit<EmbeddedEngineOptions, 'checkpoints'>;

/** A base model of the embedded engine, to show that the service keeps its promises on each. */
export interface TestedModel {
  baseModel: string;
  /**
   * Whether the template writes a last message of the assistant as it was sampled. Qwen3's writes an empty block of
   * reasoning before it.
   */
  keepsLastReply: boolean;
  /** Creates an engine with the model. */
  open(options?: Options): Promise<Engine>;
}

export const tinyModel: TestedModel = {
  baseModel: 'martingale-tiny',
  keepsLastReply: true,
  open: (options) => createEmbeddedEngine({ threads: 1, ...options }),
};

/** A small checkpoint of a family with random weights, in Hugging Face form. */
const checkpointOf = (family: Family): TestedModel => ({
  baseModel: `tiny-${family}`,
  keepsLastReply: family !== 'qwen3',
  open: async (options) => {
    const parent = await mkdtemp(join(tmpdir(), 'martingale-checkpoint-'));
    const folder = await generateCheckpoint(parent, family, { contextLength: 2048 });
    const checkpoints = [{ folder, id: `tiny-${family}` }];
    const engine = await createEmbeddedEngine({ threads: 1, ...options, checkpoints });
    const close = engine.close.bind(engine);
    return Object.assign(engine, {
      close: async () => {
        await close();
        await rm(parent, { recursive: true, force: true });
      },
    });
  },
});

export const checkpointModel = checkpointOf('qwen3');

/** For `describe.each`. */
export const testedModels = [tinyModel, checkpointModel];

/** Its template writes earlier replies as they were sampled, and its calls are bare JSON. */
export const llamaModel = checkpointOf('llama3');
