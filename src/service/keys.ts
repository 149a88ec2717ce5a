import crypto, { randomBytes, timingSafeEqual } from 'node:crypto';
import { ServiceError } from './errors.ts';

/** A new key of one service run, kept nowhere: 256 random bits. */
export function createKey(): string {
  return `mg-${randomBytes(32).toString('base64url')}`;
}

/** A new key to be kept: `mg-<id>-<secret>`. The id finds the record, the 256 random bits of the secret prove it. */
export function createStoredKey(): { id: string; key: string } {
  const id = randomBytes(8).toString('hex');
  return { id, key: `mg-${id}-${randomBytes(32).toString('base64url')}` };
}

/** The id that is part of a kept key; undefined for keys of another form. */
export function idOfKey(key: string): string | undefined {
  return /^mg-([0-9a-f]{16})-[\w-]{43}$/.exec(key)?.[1];
}

/** What is kept of a key. Keys are random, so a plain hash cannot be turned back. */
export function hashKey(key: string): Buffer {
  return crypto.hash('sha256', key, 'buffer');
}

/** Whether a key is the one of this hash, in a time that does not depend on where they differ. */
export function matchesKey(key: string, hashed: Uint8Array): boolean {
  return timingSafeEqual(hashKey(key), hashed);
}

/** @throws ServiceError `bad_option` for a key that no request could carry. It is not shown. */
export function checkApiKey(apiKey: string | undefined): string | undefined {
  if (!apiKey || /^[\x21-\x7e]+$/.test(apiKey)) return apiKey;
  throw new ServiceError(
    500,
    'bad_option',
    'apiKey (MARTINGALE_API_KEY of `serve`) has characters that no request can carry. It is letters, digits and signs of ASCII, without spaces and line breaks: look for one at its end.',
  );
}
