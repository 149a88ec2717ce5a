import { z } from 'zod';

export const inferenceModelSchema = z
  .object({
    id: z.string().describe('What `model` of a chat completion takes.'),
    object: z.literal('model'),
    created: z.number().int().describe('Seconds since 1970; of a base model, when the service started.'),
    owned_by: z.string().describe("The model's entity; of a base model, the engine's name."),
    root: z.string().describe('The base model it was trained from; of a base model, itself.'),
  })
  .meta({ id: 'InferenceModel' });

export const inferenceModelListSchema = z
  .object({ object: z.literal('list'), data: z.array(inferenceModelSchema) })
  .meta({ id: 'InferenceModelList' });

export type InferenceModel = z.infer<typeof inferenceModelSchema>;
