import { createHash } from 'node:crypto';
import type { BaseModel } from '../../engines/engine.ts';

/** Names what answers, apart from its weights: the same for the same engine and base model. */
export function fingerprintOf(engine: string, base: BaseModel): string {
  const parts = [engine, base.id, base.contextLength, base.vocabularySize, base.parameters];
  return `fp_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12)}`;
}
