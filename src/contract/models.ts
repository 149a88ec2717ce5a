import { z } from 'zod';
import { list, optional, text, withDefault } from './bounded.ts';
import { requestLimits, trainingLimits } from './limits.ts';
import { pageSchema } from './page.ts';

/** `entity/project/name`, with `:stepN` for one checkpoint and without it for the newest. */
export interface ModelName {
  entity: string;
  project: string;
  name: string;
  step?: number | undefined;
}

const pattern = /^(?:[a-z][a-z0-9+.-]*:\/\/\/)?([^/:\s]+)\/([^/:\s]+)\/([^/:\s]+?)(?::step(\d+))?$/i;

/** The form of an entity's, project's or model's name. A slash or a colon would make the full name ambiguous. */
export const namePartPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/**
 * Parses the name of a trained model in chat completions. A URI prefix (`scheme:///`) is accepted and dropped. Returns
 * undefined for names of another form, such as of base models.
 */
export function parseModelName(text: string): ModelName | undefined {
  const match = pattern.exec(text);
  if (!match) return undefined;
  const [, entity, project, name, step] = match;
  if (entity === undefined || project === undefined || name === undefined) return undefined;
  return step === undefined ? { entity, project, name } : { entity, project, name, step: Number(step) };
}

export function formatModelName({ entity, project, name, step }: ModelName): string {
  return `${entity}/${project}/${name}${step === undefined ? '' : `:step${step}`}`;
}

/** A model's name without its step. Text of another form stays unchanged. */
export function withoutStep(name: string): string {
  const parsed = parseModelName(name);
  return parsed ? formatModelName({ ...parsed, step: undefined }) : name;
}

const namePart = z
  .string()
  .regex(
    namePartPattern,
    'must be 1 to 128 letters, digits, dots, underscores or hyphens, and begin with a letter or digit',
  );

const step = z.number().int().min(0);

export const createModelRequestSchema = z
  .object({
    entity: optional(namePart).describe(
      "Owner of the model. Default: the key's entity, or else the service's. A key with an entity can only create models of that entity.",
    ),
    project: namePart.describe('Project of the model.'),
    name: optional(namePart).describe('Default: a generated name.'),
    base_model: text(requestLimits.model)
      .min(1)
      .describe('The base model to train from. GET /v1/preview/base-models lists them.'),
    return_existing: withDefault(z.boolean(), false).describe(
      'If there is already a model of that entity, project and name, return it instead of 409.',
    ),
  })
  .meta({ id: 'CreateModelRequest' });

/** Names of the base models that can be trained. */
export const baseModelListSchema = z.array(z.string()).meta({ id: 'BaseModelList' });

/** Added by us: creates a model from a checkpoint of another one. */
export const forkModelRequestSchema = z
  .object({
    step: optional(step).describe('The checkpoint to start from. Default: the newest.'),
    entity: optional(namePart).describe(
      "Default: the other model's entity. A key with an entity can only create models of that entity.",
    ),
    project: optional(namePart).describe("Default: the other model's project."),
    name: optional(namePart).describe('Default: a generated name.'),
    return_existing: withDefault(z.boolean(), false).describe(
      'If there is already a model of that entity, project and name, and it is a fork of the same model (and of the same step, if step is set), return it instead of 409.',
    ),
  })
  .meta({ id: 'ForkModelRequest' });

/** The checkpoint that a fork began with. Its model may have been deleted since. */
export const forkOriginSchema = z.object({ model_id: z.uuid(), step }).meta({ id: 'ForkOrigin' });

export const modelSchema = z
  .object({
    id: z.uuid(),
    entity: z.string(),
    project: z.string(),
    name: z
      .string()
      .describe(
        'In chat completions, `entity/project/name` is its newest checkpoint and `entity/project/name:stepN` a certain one.',
      ),
    base_model: z.string(),
    run_id: z.string().nullable().describe('Run at a tracking service. Always null.'),
    forked_from: forkOriginSchema
      .nullable()
      .default(null)
      .describe(
        'Added by us: the checkpoint that its step 0 is a copy of. Null for a model created from a base model.',
      ),
    engine: z
      .string()
      .nullable()
      .default(null)
      .describe(
        'Added by us: the engine that samples and trains it, such as `embedded` or `tinker`. Null if its base model is not served.',
      ),
  })
  .meta({ id: 'Model' });

export const modelPageSchema = pageSchema(modelSchema).meta({ id: 'ModelPage' });

export const deleteModelResponseSchema = z
  .object({
    model_id: z.uuid(),
    deleted_checkpoints: z.number().int(),
    deleted_run: z.boolean().describe('Whether a run at a tracking service was deleted. Always false.'),
  })
  .meta({ id: 'DeleteModelResponse' });

/** A checkpoint: the weights of a model after `step` training jobs. Step 0 has the weights it was created with. */
export const checkpointSchema = z
  .object({
    id: z.uuid(),
    step: z.number().int(),
    metrics: z.record(z.string(), z.number()).describe('The last metrics of the job that created it.'),
  })
  .meta({ id: 'Checkpoint' });

export const checkpointPageSchema = pageSchema(checkpointSchema).meta({ id: 'CheckpointPage' });

export const deleteCheckpointsRequestSchema = z
  .object({ steps: list(step, trainingLimits.steps).min(1) })
  .meta({ id: 'DeleteCheckpointsRequest' });

export const deleteCheckpointsResponseSchema = z
  .object({
    deleted_count: z.number().int(),
    not_found_steps: z.array(z.number().int()).describe('Requested steps without a checkpoint.'),
  })
  .meta({ id: 'DeleteCheckpointsResponse' });

export type CreateModelRequest = z.input<typeof createModelRequestSchema>;
export type ForkModelRequest = z.input<typeof forkModelRequestSchema>;
export type Model = z.infer<typeof modelSchema>;
export type Checkpoint = z.infer<typeof checkpointSchema>;
export type DeleteCheckpointsRequest = z.infer<typeof deleteCheckpointsRequestSchema>;
export type DeleteCheckpointsResponse = z.infer<typeof deleteCheckpointsResponseSchema>;

export const inferenceModelSchema = z
  .object({
    id: z.string().describe('Value for `model` in a chat completion.'),
    object: z.literal('model'),
    created: z.number().int().describe('Seconds since 1970. For a base model, the start of the service.'),
    owned_by: z.string().describe("The model's entity. For a base model, the engine's name."),
    root: z.string().describe('The base model it was trained from. For a base model, itself.'),
  })
  .meta({ id: 'InferenceModel' });

export const inferenceModelListSchema = z
  .object({ object: z.literal('list'), data: z.array(inferenceModelSchema) })
  .meta({ id: 'InferenceModelList' });

export type InferenceModel = z.infer<typeof inferenceModelSchema>;
