import type { Engine } from '../../../src/engines/engine.ts';
import { ChainEngine } from './chain-engine.ts';

/** `chain`: fast, and its weights show what they were trained on. `embedded`: the real one. */
export type EngineName = 'chain' | 'embedded';

export async function openEngine(name: EngineName): Promise<Engine> {
  if (name === 'chain') return new ChainEngine();
  const { createEmbeddedEngine } = await import('../../../src/engines/embedded/index.ts');
  return createEmbeddedEngine({ threads: 1 });
}
