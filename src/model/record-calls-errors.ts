import { MartingaleError } from '../contract/index.ts';

/** A file of recorded calls cannot be read: it is not one, or of another version. */
export class RecordedCallsError extends MartingaleError {
  constructor(file: string, what: string, options?: ErrorOptions) {
    super('invalid_recorded_calls', `The file of recorded calls ${file} ${what}.`, options);
  }
}

/** A replayed model was asked what has not been recorded. */
export class CallNotRecordedError extends MartingaleError {
  constructor(what: string) {
    super(
      'call_not_recorded',
      `A model call is not in the record: ${what} Where the agent or the environment has changed, record the calls again.`,
    );
  }
}
