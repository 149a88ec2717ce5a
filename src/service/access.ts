import crypto, { timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { namePartPattern } from '../contract/index.ts';
import { badOption, ServiceError } from './errors.ts';

/** The stored form of a key. Keys are random, so a plain hash is safe. */
export function hashKey(key: string): Buffer {
  return crypto.hash('sha256', key, 'buffer');
}

/** Whether a key has this hash, in constant time. */
export function matchesKey(key: string, hashed: Uint8Array): boolean {
  return timingSafeEqual(hashKey(key), hashed);
}

/** @throws ServiceError `bad_option` for an invalid entity name. */
export function checkEntity(entity: string): string {
  if (namePartPattern.test(entity)) return entity;
  throw badOption(
    `${JSON.stringify(entity)} is not a valid entity name. Use 1 to 128 letters, digits, dots, underscores or hyphens, starting with a letter or digit.`,
  );
}

/** What a request's API key gives access to. */
export class Access {
  /** The only entity whose models the key can see; null if it can see all entities. */
  readonly entity: string | null;
  /**
   * The tenant that admission and fair queues count the request for: one string per key, never the key
   * itself.
   */
  readonly tenant: string;

  constructor({ entity, tenant }: { entity: string | null; tenant: string }) {
    this.entity = entity;
    this.tenant = tenant;
  }

  /** Whether resources of this entity exist for this key. */
  sees(entity: string): boolean {
    return this.entity === null || this.entity === entity;
  }

  /**
   * Prefixes a client-chosen name (such as an Idempotency-Key) with the key's entity, so that equal names
   * of different entities do not collide. The separator is a line break, which no header can contain.
   */
  scoped(name: string): string {
    return this.entity === null ? name : `${this.entity}\n${name}`;
  }
}

/** The access of the request's key. @throws TypeError if `requireKey` has not run for this request. */
export function accessOf(context: Context): Access {
  const access: unknown = context.get('access');
  if (access instanceof Access) return access;
  throw new TypeError('the key of the request was not checked');
}

/** The tenant that the request is counted for: its key. */
export function tenantOf(context: Context): string {
  return accessOf(context).tenant;
}

/** The keys that can be created and revoked while the service runs. */
interface StoredKeys {
  /** The id and entity of a valid key. */
  check(key: string): { id: string; entity: string | null } | undefined;
}

/**
 * Requires a bearer token: the service's own key or a valid key of the key store. Anything else gets a 401
 * whose message does not tell a wrong key from a revoked one. Handlers read the result with `accessOf`.
 */
export function requireKey(apiKey: string, keys: StoredKeys): MiddlewareHandler {
  const hash = hashKey(apiKey);
  const all = new Access({ entity: null, tenant: 'own key' });
  return async (context, next) => {
    const key = /^Bearer +(.+)$/i.exec(context.req.header('authorization') ?? '')?.[1]?.trim();
    if (key === undefined)
      throw new ServiceError(
        401,
        'missing_api_key',
        'Every request needs the header "Authorization: Bearer <API_KEY>".',
      );
    const stored = matchesKey(key, hash) ? null : keys.check(key);
    if (stored === undefined)
      throw new ServiceError(401, 'invalid_api_key', 'The API key in the Authorization header is not valid.');
    context.set('access', stored ? new Access({ entity: stored.entity, tenant: stored.id }) : all);
    await next();
  };
}
