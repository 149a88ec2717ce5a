import type { Context } from 'hono';

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
