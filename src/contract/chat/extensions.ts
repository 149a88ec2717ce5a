import { z } from 'zod';
import { json, list, text } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';
import { optional } from '../optional.ts';

const argumentText = text(chatLimits.engineArgumentLength);

/** A value of `engine_xargs`. */
export const engineArgumentSchema = z.union([
  argumentText,
  z.number(),
  list(z.union([argumentText, z.number()]), chatLimits.engineArgumentLength),
]);

/** A logits processor by the name the operator has registered it under, alone or with what it is made with. */
export const logitsProcessorSchema = z.union([
  text(requestLimits.name),
  z.strictObject({
    qualname: text(requestLimits.name),
    args: optional(list(z.unknown())),
    kwargs: optional(json()),
  }),
]);
