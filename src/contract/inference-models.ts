import { z } from 'zod';

export const inferenceModelSchema = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.number().int(),
    owned_by: z.string(),
    root: z.string(),
  })
  .meta({ id: 'InferenceModel' });

export const inferenceModelListSchema = z
  .object({ object: z.literal('list'), data: z.array(inferenceModelSchema) })
  .meta({ id: 'InferenceModelList' });

export type InferenceModel = z.infer<typeof inferenceModelSchema>;
