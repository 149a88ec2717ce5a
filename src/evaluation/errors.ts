import { MartingaleError } from '../contract/index.ts';

/** An option of an evaluation or a comparison that cannot be met. */
export class EvaluationOptionError extends MartingaleError {
  constructor(message: string) {
    super('invalid_evaluation_option', message);
  }
}

/** A folder holds another evaluation than the one that is asked for, or none that can be read. */
export class EvaluationDirectoryError extends MartingaleError {
  constructor(message: string, options?: ErrorOptions) {
    super('evaluation_directory_refused', message, options);
  }
}
