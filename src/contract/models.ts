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
 * undefined for names of another form, such as those of base models.
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
      "Whose the model is. Default: the key's entity, else the service's own. A key of one entity makes models of that one alone.",
    ),
    project: namePart.describe('What it is for.'),
    name: optional(namePart).describe('Default: a name the service makes up.'),
    base_model: text(requestLimits.model)
      .min(1)
      .describe('The base model it is trained from; GET /v1/preview/base-models lists them.'),
    return_existing: withDefault(z.boolean(), false).describe(
      'Answer with the model of that entity, project and name where there is one, instead of 409.',
    ),
  })
  .meta({ id: 'CreateModelRequest' });

/** Names of the base models that can be trained. */
export const baseModelListSchema = z.array(z.string()).meta({ id: 'BaseModelList' });

/** Added by us: creates a model from a checkpoint of another one. */
export const forkModelRequestSchema = z
  .object({
    step: optional(step).describe('The checkpoint to go on from. Default: the newest.'),
    entity: optional(namePart).describe(
      "Default: the other model's entity. A key of one entity makes models of that one alone.",
    ),
    project: optional(namePart).describe("Default: the other model's project."),
    name: optional(namePart).describe('Default: a name the service makes up.'),
    return_existing: withDefault(z.boolean(), false).describe(
      'Answer with the model of that entity, project and name where it is a fork of the same model (and of the same step, where one is given), instead of 409.',
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
        '`entity/project/name` is its newest checkpoint in chat completions, `...:stepN` one of them.',
      ),
    base_model: z.string(),
    run_id: z.string().nullable().describe('The run that a tracking service keeps for it; null here.'),
    forked_from: forkOriginSchema
      .nullable()
      .default(null)
      .describe(
        'Added by us: the checkpoint that its step 0 was taken from; null for a model made from a base model.',
      ),
  })
  .meta({ id: 'Model' });

export const modelPageSchema = pageSchema(modelSchema).meta({ id: 'ModelPage' });

export const deleteModelResponseSchema = z
  .object({
    model_id: z.uuid(),
    deleted_checkpoints: z.number().int(),
    deleted_run: z.boolean().describe('Whether a run at a tracking service went too; false here.'),
  })
  .meta({ id: 'DeleteModelResponse' });

/** A checkpoint: the weights of a model after `step` training jobs. Step 0 has the weights it was created with. */
export const checkpointSchema = z
  .object({
    id: z.uuid(),
    step: z.number().int(),
    metrics: z.record(z.string(), z.number()).describe('The last figures of the job that made it.'),
  })
  .meta({ id: 'Checkpoint' });

export const checkpointPageSchema = pageSchema(checkpointSchema).meta({ id: 'CheckpointPage' });

export const deleteCheckpointsRequestSchema = z
  .object({ steps: list(step, trainingLimits.steps).min(1) })
  .meta({ id: 'DeleteCheckpointsRequest' });

export const deleteCheckpointsResponseSchema = z
  .object({
    deleted_count: z.number().int(),
    not_found_steps: z.array(z.number().int()).describe('Steps asked for of which there was no checkpoint.'),
  })
  .meta({ id: 'DeleteCheckpointsResponse' });

export type CreateModelRequest = z.input<typeof createModelRequestSchema>;
export type ForkModelRequest = z.input<typeof forkModelRequestSchema>;
export type Model = z.infer<typeof modelSchema>;
export type DeleteModelResponse = z.infer<typeof deleteModelResponseSchema>;
export type Checkpoint = z.infer<typeof checkpointSchema>;
export type DeleteCheckpointsRequest = z.infer<typeof deleteCheckpointsRequestSchema>;
export type DeleteCheckpointsResponse = z.infer<typeof deleteCheckpointsResponseSchema>;

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
