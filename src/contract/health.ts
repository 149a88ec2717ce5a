import { z } from 'zod';

export const healthSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Health' });

const check = z.object({
  success: z.boolean(),
  duration: z.number().describe('Milliseconds the check took.'),
  error: z.string().nullable(),
});

export const systemCheckSchema = z
  .object({ api: check, database: check, training_queue: check, inference_queue: check })
  .meta({ id: 'SystemCheck' });

export type Health = z.infer<typeof healthSchema>;
export type SystemCheck = z.infer<typeof systemCheckSchema>;
