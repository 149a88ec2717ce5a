import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** A new API key: 256 random bits. */
export function createKey(): string {
  return `mg-${randomBytes(32).toString('base64url')}`;
}

/** What is kept of a key. Keys are random, so a plain hash cannot be turned back. */
export function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** Whether a key is the one of this hash, in a time that does not depend on where they differ. */
export function matchesKey(key: string, hashed: Buffer): boolean {
  return timingSafeEqual(hashKey(key), hashed);
}
