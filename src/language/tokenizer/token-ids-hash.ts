import crypto from 'node:crypto';

/** Names a prompt or a reply by its token ids, so that training can tell whether it has the ones that were sampled. */
export function tokenIdsHash(tokens: readonly number[]): string {
  return `sha256-${crypto.hash('sha256', Int32Array.from(tokens), 'hex').slice(0, 32)}`;
}
