import { MartingaleError } from '../contract/index.ts';

/**
 * Numbers that no datum can be made of. Codes: `reward_not_finite`, `reward_too_large`, `span_out_of_bounds`, `span_logprobs_length`.
 */
export class LearningError extends MartingaleError {}
