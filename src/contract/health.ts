import { z } from 'zod';

export const healthSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Health' });

export const checkResultSchema = z
  .object({
    success: z.boolean(),
    duration: z.number().describe('Milliseconds the check took.'),
    error: z.string().nullable(),
  })
  .meta({ id: 'CheckResult' });

export const systemCheckSchema = z
  .object({
    api: checkResultSchema,
    database: checkResultSchema,
    training_queue: checkResultSchema,
    inference_queue: checkResultSchema.extend({
      in_hand: z.number().optional().describe('Replies that are waited for.'),
      oldest_ms: z.number().optional().describe('Milliseconds since the oldest request for them came.'),
      refused: z.number().optional().describe('Requests answered 429 since the start: there was no room.'),
    }),
  })
  .meta({ id: 'SystemCheck' });

export type Health = z.infer<typeof healthSchema>;
export type SystemCheck = z.infer<typeof systemCheckSchema>;
