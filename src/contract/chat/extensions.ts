import { z } from 'zod';
import { optional } from '../optional.ts';

/** A value of `engine_xargs`. */
export const engineArgumentSchema = z.union([
  z.string(),
  z.number(),
  z.array(z.union([z.string(), z.number()])),
]);

/** A logits processor by the name the operator has registered it under, alone or with what it is made with. */
export const logitsProcessorSchema = z.union([
  z.string(),
  z.strictObject({
    qualname: z.string(),
    args: optional(z.array(z.unknown())),
    kwargs: optional(z.record(z.string(), z.unknown())),
  }),
]);
