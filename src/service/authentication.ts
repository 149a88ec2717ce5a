import type { MiddlewareHandler } from 'hono';
import { ServiceError } from './errors.ts';
import { hashKey, matchesKey } from './keys.ts';
import type { KeyStore } from './store/key-store.ts';

/**
 * Lets a request through when it carries, as a bearer token, the service's own key or a valid one of the key store;
 * anything else is 401, in the same words for a key that is wrong and for one that was revoked.
 */
export function requireKey(apiKey: string, keys: KeyStore): MiddlewareHandler {
  const hash = hashKey(apiKey);
  return async (context, next) => {
    const given = /^Bearer +(.+)$/i.exec(context.req.header('authorization') ?? '')?.[1]?.trim();
    if (given === undefined)
      throw new ServiceError(
        401,
        'missing_api_key',
        'Every request needs the header "Authorization: Bearer <API_KEY>".',
      );
    if (!matchesKey(given, hash) && keys.check(given) === undefined)
      throw new ServiceError(
        401,
        'invalid_api_key',
        'The API key in the Authorization header is not valid here.',
      );
    await next();
  };
}
