import { createHash, randomUUID } from 'node:crypto';
import { RequestValidationError, ServiceError } from './errors.ts';
import type { Store } from './store/store.ts';

/** An answer that can be given again. */
export interface Answer {
  status: 200;
  body: object;
  /** The model with which the key goes; null where the answer belongs to none. */
  modelId: string | null;
}

export interface KeyedRequest {
  /** The Idempotency-Key header. */
  key: string | undefined;
  method: string;
  path: string;
  body: string;
}

const longestKey = 255;

/**
 * Makes a repeat of a request harmless. A key is reserved, durably, together with the id of what the request will
 * make; the work then makes its thing under that id or finds it made. So a repeat gives the first answer: while the
 * first is in progress, after it, after a restart, and after a crash between the making and the answer.
 */
export class Idempotency {
  readonly #store: Store;
  readonly #inProgress = new Map<string, { fingerprint: string; answer: Promise<Answer> }>();

  constructor(store: Store) {
    this.#store = store;
  }

  async run(
    request: KeyedRequest,
    work: (resourceId: string) => Promise<Answer>,
  ): Promise<Omit<Answer, 'modelId'>> {
    const { key } = request;
    if (key === undefined) return work(randomUUID());
    if (key === '' || key.length > longestKey)
      throw new RequestValidationError([
        {
          loc: ['header', 'Idempotency-Key'],
          msg: `must have 1 to ${longestKey} characters`,
          type: 'value_error',
          input: key.slice(0, longestKey),
        },
      ]);
    const fingerprint = fingerprintOf(request);
    const running = this.#inProgress.get(key);
    if (running) {
      if (running.fingerprint !== fingerprint) throw otherBody(key);
      return running.answer;
    }
    const answer = this.#runReserved(key, fingerprint, work);
    this.#inProgress.set(key, { fingerprint, answer });
    try {
      return await answer;
    } finally {
      this.#inProgress.delete(key);
    }
  }

  async #runReserved(
    key: string,
    fingerprint: string,
    work: (resourceId: string) => Promise<Answer>,
  ): Promise<Answer> {
    const reserved = await this.#store.reserveIdempotencyKey({
      key,
      fingerprint,
      resourceId: randomUUID(),
      answer: null,
    });
    if (reserved.fingerprint !== fingerprint) throw otherBody(key);
    if (reserved.answer) return { status: 200, body: Object(reserved.answer.body), modelId: null };
    try {
      const answer = await work(reserved.resourceId);
      await this.#store.answerIdempotencyKey(key, answer, answer.modelId);
      return answer;
    } catch (error) {
      // A refused request made nothing: the same key may carry its corrected form.
      if (error instanceof ServiceError && error.status < 500) await this.#store.releaseIdempotencyKey(key);
      throw error;
    }
  }
}

function fingerprintOf({ method, path, body }: KeyedRequest): string {
  return createHash('sha256').update(`${method} ${path}\n`).update(body).digest('hex');
}

function otherBody(key: string): ServiceError {
  return new ServiceError(
    409,
    'idempotency_key_reused',
    `The Idempotency-Key ${JSON.stringify(key)} was used with another request; take a new key for a new request.`,
  );
}
