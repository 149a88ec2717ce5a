import { z } from 'zod';
import { pageSchema } from './page.ts';

const id = z.uuid();

/**
 * An event of a training job. `training_started` says how many gradient steps will come; `gradient_step` is a
 * flat record of numbers and nothing else; exactly one of `training_ended` and `training_failed` is the last.
 * A cancelled job ends in `training_failed` with an `error_message` that says so.
 */
export const trainingEventSchema = z
  .discriminatedUnion('type', [
    z.object({
      id,
      type: z.literal('training_started'),
      data: z.looseObject({ num_sequences: z.number().int() }),
    }),
    z.object({ id, type: z.literal('gradient_step'), data: z.record(z.string(), z.number()) }),
    z.object({ id, type: z.literal('training_ended'), data: z.record(z.string(), z.unknown()) }),
    z.object({ id, type: z.literal('training_failed'), data: z.looseObject({ error_message: z.string() }) }),
  ])
  .meta({ id: 'TrainingEvent' });

export const trainingEventPageSchema = pageSchema(trainingEventSchema).meta({ id: 'TrainingEventPage' });

export type TrainingEvent = z.infer<typeof trainingEventSchema>;
