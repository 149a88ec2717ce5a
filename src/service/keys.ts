import crypto, { randomBytes, timingSafeEqual } from 'node:crypto';
import { ServiceError } from './errors.ts';

/** Creates a key for one run of the service, stored nowhere: 256 random bits. */
export function createKey(): string {
  return `mg-${randomBytes(32).toString('base64url')}`;
}

/**
 * Creates a key for the key store: `mg-<id>-<secret>`. The id finds the record; the secret has 256 random
 * bits.
 */
export function createStoredKey(): { id: string; key: string } {
  const id = randomBytes(8).toString('hex');
  return { id, key: `mg-${id}-${randomBytes(32).toString('base64url')}` };
}

/** The id inside a stored key; undefined if the key has another form. */
export function idOfKey(key: string): string | undefined {
  return /^mg-([0-9a-f]{16})-[\w-]{43}$/.exec(key)?.[1];
}

/** The stored form of a key. Keys are random, so a plain hash is safe. */
export function hashKey(key: string): Buffer {
  return crypto.hash('sha256', key, 'buffer');
}

/** Whether a key has this hash, in constant time. */
export function matchesKey(key: string, hashed: Uint8Array): boolean {
  return timingSafeEqual(hashKey(key), hashed);
}

/**
 * Checks that a request header can carry the key. The error does not show it. @throws ServiceError
 * `bad_option`
 */
export function checkApiKey(apiKey: string | undefined): string | undefined {
  if (!apiKey || /^[\x21-\x7e]+$/.test(apiKey)) return apiKey;
  throw new ServiceError(
    500,
    'bad_option',
    'apiKey (MARTINGALE_API_KEY of `serve`) has characters that no request can carry. It is letters, digits and signs of ASCII, without spaces and line breaks: look for one at its end.',
  );
}
