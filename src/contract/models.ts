import { z } from 'zod';
import { namePartPattern } from './model-name.ts';
import { optional, withDefault } from './optional.ts';
import { pageSchema } from './page.ts';

const namePart = z
  .string()
  .regex(
    namePartPattern,
    'must be 1 to 128 letters, digits, dots, underscores or hyphens, and begin with a letter or digit',
  );

export const createModelRequestSchema = z
  .object({
    entity: optional(namePart),
    project: namePart,
    name: optional(namePart),
    base_model: z.string().min(1),
    return_existing: withDefault(z.boolean(), false),
  })
  .meta({ id: 'CreateModelRequest' });

export const modelSchema = z
  .object({
    id: z.uuid(),
    entity: z.string(),
    project: z.string(),
    name: z.string(),
    base_model: z.string(),
    run_id: z.string().nullable(),
  })
  .meta({ id: 'Model' });

export const modelPageSchema = pageSchema(modelSchema).meta({ id: 'ModelPage' });

export const deleteModelResponseSchema = z
  .object({ model_id: z.uuid(), deleted_checkpoints: z.number().int(), deleted_run: z.boolean() })
  .meta({ id: 'DeleteModelResponse' });

/** A checkpoint: the weights of a model after `step` training jobs. Step 0 is the base model. */
export const checkpointSchema = z
  .object({ id: z.uuid(), step: z.number().int(), metrics: z.record(z.string(), z.number()) })
  .meta({ id: 'Checkpoint' });

export const checkpointPageSchema = pageSchema(checkpointSchema).meta({ id: 'CheckpointPage' });

export const deleteCheckpointsRequestSchema = z
  .object({ steps: z.array(z.number().int().min(0)).min(1) })
  .meta({ id: 'DeleteCheckpointsRequest' });

export const deleteCheckpointsResponseSchema = z
  .object({ deleted_count: z.number().int(), not_found_steps: z.array(z.number().int()) })
  .meta({ id: 'DeleteCheckpointsResponse' });

export type CreateModelRequest = z.input<typeof createModelRequestSchema>;
export type Model = z.infer<typeof modelSchema>;
export type DeleteModelResponse = z.infer<typeof deleteModelResponseSchema>;
export type Checkpoint = z.infer<typeof checkpointSchema>;
export type DeleteCheckpointsRequest = z.infer<typeof deleteCheckpointsRequestSchema>;
export type DeleteCheckpointsResponse = z.infer<typeof deleteCheckpointsResponseSchema>;
