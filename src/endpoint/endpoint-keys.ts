import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

const prefix = 'martingale';

/** Makes keys, and knows its own again when what they stood for is long forgotten. */
export class EndpointKeys {
  readonly #secret = randomBytes(32);

  create(): string {
    const id = randomBytes(18).toString('base64url');
    return `${prefix}.${id}.${this.#mark(id)}`;
  }

  /** Whether the key was made here, be it in force or ended. */
  isOwn(key: string): boolean {
    const [name, id, mark, more] = key.split('.');
    if (name !== prefix || id === undefined || mark === undefined || more !== undefined) return false;
    const given = Buffer.from(mark);
    const expected = Buffer.from(this.#mark(id));
    return given.length === expected.length && timingSafeEqual(given, expected);
  }

  #mark(id: string): string {
    return createHmac('sha256', this.#secret).update(id).digest('base64url').slice(0, 24);
  }
}
