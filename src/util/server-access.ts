import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const hashed = (text: string): Buffer => createHash('sha256').update(text).digest();

/** In constant time. */
export const isSameKey = (a: string, b: string): boolean => timingSafeEqual(hashed(a), hashed(b));

/** The key of an `Authorization` header; empty if it has none. */
export const bearerKeyOf = (authorization: string | undefined): string =>
  (/^Bearer +(.+)$/i.exec(authorization ?? '')?.[1] ?? '').trim();

/** Addresses that only programs of this machine reach. */
const loopback = new Set(['127.0.0.1', 'localhost', '::1', '[::1]']);

export const isLoopback = (host: string): boolean => loopback.has(host);

/** A key that nobody can guess. */
export const newKey = (): string => randomBytes(24).toString('base64url');

/** Whether a `Host` header names this machine's own address. The name of another machine may lead here too. */
export const isLocalHost = (host = ''): boolean => /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(host);

/**
 * Why a request is refused although it may have the key; null if it may pass. A page of another site, open in a browser of
 * this machine, reaches local servers: under another name, or with its own `Origin`.
 *
 * @param isLocal Whether the server listens on this machine's own address only.
 */
export function foreignRequest(
  { host, origin }: { host: string | undefined; origin: string | undefined },
  { isLocal }: { isLocal: boolean },
): string | null {
  if (isLocal && !isLocalHost(host)) return 'This server answers only under 127.0.0.1 and localhost.';
  if (origin !== undefined && URL.parse(origin)?.host !== host)
    return `This server answers programs, not pages of ${origin}.`;
  return null;
}
