import type { Context, MiddlewareHandler } from 'hono';
import { Access, accessOf, setAccess } from './access.ts';
import { ServiceError } from './errors.ts';
import { hashKey, matchesKey } from './keys.ts';
import type { KeyStore } from './store/key-store.ts';

/**
 * Lets a request through when it carries, as a bearer token, the service's own key or a valid one of the key store;
 * anything else is 401, in the same words for a key that is wrong and for one that was revoked. What the key opens
 * is known from here on: see `accessOf`.
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

/** Whom a request's share of the service's room counts for: its key. */
export function tenantOf(context: Context): string {
  return accessOf(context).tenant;
}
