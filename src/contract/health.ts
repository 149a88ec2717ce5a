import { z } from 'zod';

export const healthSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Health' });

export const checkResultSchema = z
  .object({
    success: z.boolean(),
    duration: z.number().describe('Duration of the check in milliseconds.'),
    error: z.string().nullable(),
  })
  .meta({ id: 'CheckResult' });

export const systemCheckSchema = z
  .object({
    api: checkResultSchema,
    database: checkResultSchema,
    training_queue: checkResultSchema,
    inference_queue: checkResultSchema.extend({
      in_hand: z.number().optional().describe('Replies in flight.'),
      oldest_ms: z
        .number()
        .optional()
        .describe('Milliseconds since the oldest of their requests was received.'),
      refused: z
        .number()
        .optional()
        .describe('Requests answered with 429 since the start, because the service was full.'),
    }),
  })
  .meta({ id: 'SystemCheck' });

export type Health = z.infer<typeof healthSchema>;
export type SystemCheck = z.infer<typeof systemCheckSchema>;
