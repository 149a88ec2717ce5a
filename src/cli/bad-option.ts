import { MartingaleError } from '../contract/index.ts';

/** The error for flags that are wrong, or do not go together. */
export const badOption = (problem: string) => new MartingaleError('bad_option', problem);
