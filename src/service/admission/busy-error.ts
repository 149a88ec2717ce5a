import { ServiceError } from '../errors.ts';

/** More than the service takes in hand at once: to be asked again later. Status 429. */
export class BusyError extends ServiceError {
  /** When there should be room, in seconds from now. */
  readonly retryAfterSeconds: number;

  constructor(code: string, message: string, retryAfterSeconds: number) {
    super(429, code, `${message} Ask again in ${retryAfterSeconds} s.`);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
