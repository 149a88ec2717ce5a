import { z } from 'zod';
import {
  checkpointSchema,
  deleteModelResponseSchema,
  type InferenceModel,
  jobKindSchema,
  jobStatusSchema,
  modelSchema,
  type Page,
  type SystemCheck,
  storedGroupSchema,
  type TrainingEvent,
  type TrainingJob,
  trainingJobSchema,
} from '../contract/index.ts';

/*
 * Schemas of answers. Other services may have fewer or more fields than this one. Fields that the interface guarantees are
 * required. Optional fields and our extensions may be missing or `null`, and then have the default of the schema here.
 * Unknown fields are dropped. An id is any text of a length that can be sent back unchanged.
 */

export const maxIdLength = 1024;
const id = z.string().min(1).max(maxIdLength);
const nullable = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value): z.output<Schema> | null => value ?? null);
const otherwise = <Schema extends z.ZodType>(schema: Schema, value: z.output<Schema>) =>
  schema.nullish().transform((reported): z.output<Schema> => reported ?? value);
/** A field of our extensions. Its name may mean something else in other services, so other values are dropped. */
const ownField = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);

/** Numbers by name. Entries that are `null` are dropped. */
const numbersByName = z
  .record(z.string(), z.number().nullable())
  .transform(
    (entries): Record<string, number> =>
      Object.fromEntries(
        Object.entries(entries).flatMap(([name, value]) => (value === null ? [] : [[name, value]])),
      ),
  );

export const reportedPageSchema = <Item extends z.ZodType<{ id: string }>>(item: Item) =>
  z
    .object({
      data: z.array(item),
      has_more: z.boolean(),
      first_id: z.string().nullish(),
      last_id: z.string().nullish(),
    })
    .transform(({ data, has_more, first_id, last_id }): Page<z.output<Item>> => {
      const first = first_id || data.at(0)?.id;
      const last = last_id || data.at(-1)?.id;
      return { object: 'list', data, has_more, first_id: first ?? '', last_id: last ?? '' };
    });

export const reportedModelSchema = modelSchema.extend({
  id,
  run_id: nullable(z.string()),
  forked_from: modelSchema.shape.forked_from.catch(null),
  engine: modelSchema.shape.engine.catch(null),
});

export const reportedDeletionSchema = deleteModelResponseSchema.extend({ model_id: id });

export const reportedCheckpointSchema = checkpointSchema.extend({
  id,
  metrics: otherwise(numbersByName, {}),
});

export const reportedStoredGroupSchema = storedGroupSchema.extend({ id });

export const createdJobSchema = z.object({ id });

/** A job as returned by any service of the interface. All fields except the id are extensions. */
export type ReportedTrainingJob = Pick<TrainingJob, 'id'> & Partial<TrainingJob>;

export const reportedJobSchema: z.ZodType<ReportedTrainingJob> = z.object({
  id,
  model_id: ownField(z.string()),
  kind: ownField(jobKindSchema),
  status: ownField(jobStatusSchema),
  created_at: ownField(z.string()),
  started_at: ownField(z.string().nullable()),
  ended_at: ownField(z.string().nullable()),
  error_message: ownField(z.string().nullable()),
  resolved_config: ownField(trainingJobSchema.shape.resolved_config),
  step: ownField(z.number().int().nullable()),
  untrained: ownField(trainingJobSchema.shape.untrained),
});

type StartedEvent = Extract<TrainingEvent, { type: 'training_started' }>;

/**
 * An event as returned by any service of the interface. `num_sequences`, the number of gradient steps to come, is `null`
 * if the service does not report it, as for some supervised jobs.
 */
export type ReportedTrainingEvent =
  | Exclude<TrainingEvent, StartedEvent>
  | (Omit<StartedEvent, 'data'> & { data: { num_sequences: number | null; [name: string]: unknown } });

const noReason = 'the service gave no reason';
const openData = otherwise(z.record(z.string(), z.unknown()), {});

export const reportedEventSchema: z.ZodType<ReportedTrainingEvent> = z.discriminatedUnion('type', [
  z.object({
    id,
    type: z.literal('training_started'),
    data: otherwise(z.looseObject({ num_sequences: nullable(z.number()) }), { num_sequences: null }),
  }),
  z.object({ id, type: z.literal('gradient_step'), data: numbersByName }),
  z.object({
    id,
    type: z.literal('training_waiting'),
    data: otherwise(z.looseObject({ reason: otherwise(z.string(), noReason) }), { reason: noReason }),
  }),
  z.object({ id, type: z.literal('training_ended'), data: openData }),
  z.object({
    id,
    type: z.literal('training_failed'),
    data: otherwise(z.looseObject({ error_message: otherwise(z.string(), noReason) }), {
      error_message: noReason,
    }),
  }),
]);

const inferenceModelSchema = z
  .object({
    id,
    created: otherwise(z.number(), 0),
    owned_by: otherwise(z.string(), ''),
    root: z.string().nullish(),
  })
  .transform((model): InferenceModel => ({ ...model, object: 'model', root: model.root ?? model.id }));

export const reportedInferenceModelsSchema = z.object({ data: z.array(inferenceModelSchema) });

/** The check of one component of a service. */
export interface ComponentCheck {
  success: boolean;
  /** Duration of the check in milliseconds; `null` if not reported. */
  duration: number | null;
  /** `null` if there is none. */
  error: string | null;
  /** Only for `inference_queue`: number of replies in flight. Absent if not reported. */
  in_hand?: number | undefined;
  /** Only for `inference_queue`: milliseconds since the oldest of these requests arrived. Absent if not reported. */
  oldest_ms?: number | undefined;
  /**
   * Only for `inference_queue`: number of requests answered 429 since the service's start, because the queue was full.
   * Absent if not reported.
   */
  refused?: number | undefined;
}

/** The components of a service by name. Other services may have other names. */
export type ReportedSystemCheck = { [Name in keyof SystemCheck]?: ComponentCheck } & {
  [component: string]: ComponentCheck | undefined;
};

const componentSchema = z.object({
  success: z.boolean(),
  duration: nullable(z.number()),
  error: nullable(z.string()),
  in_hand: ownField(z.number()),
  oldest_ms: ownField(z.number()),
  refused: ownField(z.number()),
});

export const reportedSystemCheckSchema = z
  .record(z.string(), z.unknown())
  .transform((report): ReportedSystemCheck => {
    const parts = Object.entries(report).map(
      ([name, part]) => [name, componentSchema.safeParse(part)] as const,
    );
    return Object.fromEntries(parts.flatMap(([name, { data }]) => (data ? [[name, data]] : [])));
  })
  .refine((checks) => Object.keys(checks).length > 0, 'it has no checks');

export const openApiDocumentSchema = z.looseObject({ openapi: z.string() });
