import { createHash, timingSafeEqual } from 'node:crypto';

const hashed = (text: string): Buffer => createHash('sha256').update(text).digest();

/** In constant time. */
export const isSameKey = (a: string, b: string): boolean => timingSafeEqual(hashed(a), hashed(b));

/** The key of an `Authorization` header; empty if it has none. */
export const bearerKeyOf = (authorization: string | undefined): string =>
  (/^Bearer +(.+)$/i.exec(authorization ?? '')?.[1] ?? '').trim();

/** Addresses that only programs of this machine reach. */
const loopback = new Set(['127.0.0.1', 'localhost', '::1', '[::1]']);

export const isLoopback = (host: string): boolean => loopback.has(host);
