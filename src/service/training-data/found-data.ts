import { invalidField } from '../errors.ts';

/** What is known of training data beside its bytes. */
export interface FoundData {
  /** How many examples its metadata says there are; null where it does not say. */
  examples: number | null;
}

export interface DataTaker {
  /** Most bytes that are taken. */
  limit: number;
  /** Hears how many bytes are going to come, where that is known, before the first does. What it throws is thrown. */
  expect?: (bytes: number) => void;
  /** The same of examples, where metadata says so. */
  expectExamples?: (examples: number) => void;
  /** Takes the next bytes. They may be used for others once it has resolved. */
  take: (bytes: Uint8Array) => Promise<void>;
}

/** Refuses a `training_data_url`. */
export const refuse = (url: string, reason: string) => invalidField(['training_data_url'], reason, url);
