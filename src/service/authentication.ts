import type { MiddlewareHandler } from 'hono';
import { ServiceError } from './errors.ts';
import { hashKey, matchesKey } from './keys.ts';

/** Lets a request through when it carries the key as a bearer token; anything else is 401. */
export function requireKey(apiKey: string): MiddlewareHandler {
  const hash = hashKey(apiKey);
  return async (context, next) => {
    const given = /^Bearer +(.+)$/i.exec(context.req.header('authorization') ?? '')?.[1];
    if (given === undefined)
      throw new ServiceError(
        401,
        'missing_api_key',
        'Every request needs the header "Authorization: Bearer <API_KEY>".',
      );
    if (!matchesKey(given.trim(), hash))
      throw new ServiceError(
        401,
        'invalid_api_key',
        'The API key in the Authorization header is not valid here.',
      );
    await next();
  };
}
