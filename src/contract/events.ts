import { z } from 'zod';
import { pageSchema } from './page.ts';

const id = z.uuid();

export const trainingStartedEventSchema = z
  .object({
    id,
    type: z.literal('training_started'),
    data: z.looseObject({ num_sequences: z.number().int() }),
  })
  .meta({ id: 'TrainingStartedEvent' });

export const gradientStepEventSchema = z
  .object({ id, type: z.literal('gradient_step'), data: z.record(z.string(), z.number()) })
  .meta({ id: 'GradientStepEvent' });

export const trainingWaitingEventSchema = z
  .object({ id, type: z.literal('training_waiting'), data: z.looseObject({ reason: z.string() }) })
  .meta({ id: 'TrainingWaitingEvent' });

export const trainingEndedEventSchema = z
  .object({ id, type: z.literal('training_ended'), data: z.record(z.string(), z.unknown()) })
  .meta({ id: 'TrainingEndedEvent' });

export const trainingFailedEventSchema = z
  .object({ id, type: z.literal('training_failed'), data: z.looseObject({ error_message: z.string() }) })
  .meta({ id: 'TrainingFailedEvent' });

/**
 * An event of a training job. `training_started` says how many gradient steps will follow. `gradient_step` is a flat
 * record of numbers. `training_waiting` says what a running job waits for outside the service. Exactly one of
 * `training_ended` and `training_failed` comes last. A job without a signal ends in `training_ended` without a gradient
 * step; `untrained` in its data says why. A cancelled job ends in `training_failed` with an `error_message` that says so.
 */
export const trainingEventSchema = z
  .discriminatedUnion('type', [
    trainingStartedEventSchema,
    gradientStepEventSchema,
    trainingWaitingEventSchema,
    trainingEndedEventSchema,
    trainingFailedEventSchema,
  ])
  .meta({ id: 'TrainingEvent' });

export const trainingEventPageSchema = pageSchema(trainingEventSchema).meta({ id: 'TrainingEventPage' });

export type TrainingEvent = z.infer<typeof trainingEventSchema>;
