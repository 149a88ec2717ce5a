import { z } from 'zod';

export const healthSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Health' });

const check = z.object({
  success: z.boolean(),
  duration: z.number().describe('Milliseconds the check took.'),
  error: z.string().nullable(),
});

export const systemCheckSchema = z
  .object({
    api: check,
    database: check,
    training_queue: check,
    inference_queue: check.extend({
      in_hand: z.number().optional().describe('Replies that are waited for.'),
      oldest_ms: z.number().optional().describe('Milliseconds since the oldest request for them came.'),
      refused: z.number().optional().describe('Requests answered 429 since the start: there was no room.'),
    }),
  })
  .meta({ id: 'SystemCheck' });

export type Health = z.infer<typeof healthSchema>;
export type SystemCheck = z.infer<typeof systemCheckSchema>;
