import { hash } from 'node:crypto';

/** Names a prompt by its token ids, so that training can tell whether it has the one that a choice was sampled after. */
export function promptHash(tokens: readonly number[]): string {
  return `sha256-${hash('sha256', Int32Array.from(tokens), 'hex').slice(0, 32)}`;
}
