export type { Place } from './legal-tokens.ts';
export { ReplySampling } from './reply-sampling.ts';
