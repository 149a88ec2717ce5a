import type { Context, MiddlewareHandler } from 'hono';
import { ServiceError } from './errors.ts';
import { hashKey, matchesKey } from './keys.ts';
import type { KeyStore } from './store/key-store.ts';

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

const variable = 'access';

export function setAccess(context: Context, access: Access): void {
  context.set(variable, access);
}

/** The access of the request's key. @throws TypeError if `requireKey` has not run for this request. */
export function accessOf(context: Context): Access {
  const access: unknown = context.get(variable);
  if (access instanceof Access) return access;
  throw new TypeError('the request was not asked for its key');
}

/**
 * Requires a bearer token: the service's own key or a valid key of the key store. Anything else gets a 401
 * whose message does not tell a wrong key from a revoked one. Handlers read the result with `accessOf`.
 */
export function requireKey(apiKey: string, keys: KeyStore): MiddlewareHandler {
  const hash = hashKey(apiKey);
  const all = new Access({ entity: null, tenant: 'own key' });
  const find = (given: string): Access | undefined => {
    if (matchesKey(given, hash)) return all;
    const key = keys.check(given);
    return key && new Access({ entity: key.entity, tenant: key.id });
  };
  return async (context, next) => {
    const given = /^Bearer +(.+)$/i.exec(context.req.header('authorization') ?? '')?.[1]?.trim();
    if (given === undefined)
      throw new ServiceError(
        401,
        'missing_api_key',
        'Every request needs the header "Authorization: Bearer <API_KEY>".',
      );
    const access = find(given);
    if (!access)
      throw new ServiceError(
        401,
        'invalid_api_key',
        'The API key in the Authorization header is not valid here, or no longer.',
      );
    setAccess(context, access);
    await next();
  };
}

/** The tenant that the request is counted for: its key. */
export function tenantOf(context: Context): string {
  return accessOf(context).tenant;
}
