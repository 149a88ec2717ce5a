import { invalidField } from '../errors.ts';

/** Training data as it was found. */
export interface FoundData {
  bytes: Buffer;
  /** How many examples its metadata says there are; null where it does not say. */
  examples: number | null;
}

export interface Limits {
  /** Most bytes that are taken. */
  bytes: number;
}

/** Refuses a `training_data_url`. */
export const refuse = (url: string, reason: string) => invalidField(['training_data_url'], reason, url);
