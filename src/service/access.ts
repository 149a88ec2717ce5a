import type { Context, MiddlewareHandler } from 'hono';
import { ServiceError } from './errors.ts';
import { hashKey, matchesKey } from './keys.ts';
import type { KeyStore } from './store/key-store.ts';

/** What the key of a request opens. */
export class Access {
  /** The one entity whose models it sees; null for a key that sees all of them. */
  readonly entity: string | null;
  /** Whom the request's share of the service's room counts for: one text for each key. Not the key itself. */
  readonly tenant: string;

  constructor({ entity, tenant }: { entity: string | null; tenant: string }) {
    this.entity = entity;
    this.tenant = tenant;
  }

  /** Whether what belongs to an entity is there at all, as far as this key is concerned. */
  sees(entity: string): boolean {
    return this.entity === null || this.entity === entity;
  }

  /**
   * A name that clients choose, such as an Idempotency-Key, made one of this key's entity: the same name of another
   * entity is another one. No header can hold the line break between the two.
   */
  scoped(name: string): string {
    return this.entity === null ? name : `${this.entity}\n${name}`;
  }
}

const variable = 'access';

export function setAccess(context: Context, access: Access): void {
  context.set(variable, access);
}

/** What the request's key opens. Throws where nobody has looked at the key: nothing is open then. */
export function accessOf(context: Context): Access {
  const access: unknown = context.get(variable);
  if (access instanceof Access) return access;
  throw new TypeError('the request was not asked for its key');
}

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
