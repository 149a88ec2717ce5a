import type { Engine } from '../../../src/engines/engine.ts';
import { ChainEngine } from './chain-engine.ts';

/**
 * `chain`: fast, and its weights show what they were trained on. `embedded`: the real one. `checkpoint`: the real one with
 * a generated checkpoint, the base model `generated`.
 */
export type EngineName = 'chain' | 'embedded' | 'checkpoint';

/** `folder` gets the checkpoint, which is the same each time. */
export async function openEngine(name: EngineName, folder: string): Promise<Engine> {
  if (name === 'chain') return new ChainEngine();
  const { createEmbeddedEngine } = await import('../../../src/engines/embedded/index.ts');
  if (name === 'embedded') return createEmbeddedEngine({ threads: 1 });
  const { generateCheckpoint } = await import('../../engines/embedded/checkpoint/generated.ts');
  const checkpoint = await generateCheckpoint(folder, 'qwen3');
  return createEmbeddedEngine({ threads: 1, checkpoints: [{ folder: checkpoint, id: 'generated' }] });
}
