import { randomUUID } from 'node:crypto';
import { LanguageError } from '../language/index.ts';
import type { Access } from './access.ts';
import { fromLanguage, RequestValidationError, ServiceError } from './errors.ts';
import type { Store } from './store/store.ts';

/** An answer that can be sent again. Its status is 200. */
export interface RepeatableAnswer {
  body: object;
  /** The model that the key is deleted with; null if the answer belongs to no model. */
  modelId: string | null;
  /** The work answers the same when it is done again, so a repeat does it. Default: a repeat gets the stored answer. */
  isRepeatable?: boolean;
}

interface KeyedRequest {
  /** The Idempotency-Key header. */
  key: string | undefined;
  /** SHA-256 of method, path and body. It must be the same for every use of a key. */
  fingerprint: string;
  /** The request's access: each entity has its own Idempotency-Keys. */
  access: Access;
}

export const maxKey = 255;

/**
 * Makes repeated requests harmless. A key is durably reserved together with the id of the resource that
 * the request will create; the work then creates the resource under that id, or finds it. A repeat gets
 * the first answer: during the first request, after it, after a restart, and after a crash between
 * creating and answering.
 */
export class Idempotency {
  readonly #store: Store;
  readonly #inProgress = new Map<string, { fingerprint: string; answer: Promise<RepeatableAnswer> }>();

  constructor(store: Store) {
    this.#store = store;
  }

  async run(
    request: KeyedRequest,
    work: (resourceId: string) => Promise<RepeatableAnswer>,
  ): Promise<RepeatableAnswer> {
    const { key, fingerprint } = request;
    if (key === undefined) return work(randomUUID());
    if (key === '' || key.length > maxKey)
      throw new RequestValidationError([
        {
          loc: ['header', 'Idempotency-Key'],
          msg: `must have 1 to ${maxKey} characters`,
          type: 'value_error',
          input: key.slice(0, maxKey),
        },
      ]);
    const scopedKey = request.access.scoped(key);
    const running = this.#inProgress.get(scopedKey);
    if (running) {
      if (running.fingerprint !== fingerprint) throw keyReused(key);
      return running.answer;
    }
    const answer = this.#runReserved(request, { key, scopedKey }, work);
    this.#inProgress.set(scopedKey, { fingerprint, answer });
    try {
      return await answer;
    } finally {
      this.#inProgress.delete(scopedKey);
    }
  }

  async #runReserved(
    { fingerprint }: KeyedRequest,
    { key, scopedKey }: { key: string; scopedKey: string },
    work: (resourceId: string) => Promise<RepeatableAnswer>,
  ): Promise<RepeatableAnswer> {
    const reserved = await this.#store.reserveIdempotencyKey({
      key: scopedKey,
      fingerprint,
      resourceId: randomUUID(),
      answer: null,
    });
    if (reserved.fingerprint !== fingerprint) throw keyReused(key);
    if (reserved.answer) return { body: Object(reserved.answer.body), modelId: null };
    try {
      const answer = await work(reserved.resourceId);
      // The work is done: if the answer cannot be stored, a repeat finds the resource instead.
      const stored = { status: 200, body: answer.body };
      if (!answer.isRepeatable)
        await this.#store.answerIdempotencyKey(scopedKey, stored, answer.modelId).catch(() => undefined);
      return answer;
    } catch (error) {
      // A refused request created nothing, so its key may be used for the corrected request.
      const refusal = error instanceof LanguageError ? fromLanguage(error) : error;
      if (refusal instanceof ServiceError && refusal.status < 500)
        await this.#store.releaseIdempotencyKey(scopedKey);
      throw error;
    }
  }
}

function keyReused(key: string): ServiceError {
  return new ServiceError(
    409,
    'idempotency_key_reused',
    `The Idempotency-Key ${JSON.stringify(key)} was used with another request; use a new key for a different request.`,
  );
}
