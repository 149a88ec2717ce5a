import { z } from 'zod';
import { type RlConfig, untrainedSchema } from '../contract/index.ts';
import type { JsonValue } from '../environment/index.ts';
import type { StepReport } from '../progress/index.ts';

const positionSchema = z.custom<JsonValue>((value) => z.json().safeParse(value).success);
const usageSchema = z.object({ promptTokens: z.number(), sampledTokens: z.number() });

const evaluationSchema = z.object({
  name: z.string(),
  step: z.int().nonnegative(),
  policy: z.string(),
  checkpoint: z.int().nonnegative(),
  reward: z.number(),
  success: z.number().nullable(),
  failedShare: z.number().default(0),
  usage: usageSchema,
});

/** A run from its start, or from a resume, to its end or to when it was killed. */
export const runPartSchema = z.object({
  /** ISO 8601. */
  started: z.string(),
  /** Finished steps at its beginning and at its end. */
  fromStep: z.int().nonnegative(),
  toStep: z.int().nonnegative(),
  /** Wall-clock seconds, up to its last note. */
  seconds: z.number().nonnegative(),
  /** How it ended; `running` while it does, and `killed` where it never said. */
  reason: z.string(),
});

export type RunPart = z.output<typeof runPartSchema>;

/** Where a run stands, as `state.json` has it: with the files beside it, all that going on needs. */
export const runStateSchema = z.object({
  version: z.literal(1),
  /** Begins the keys of what is logged. */
  runId: z.string(),
  finishedSteps: z.int().nonnegative(),
  /** Checkpoint before the first step, and after each finished one. */
  policySteps: z.array(z.int().nonnegative()).min(1),
  /** Checkpoints of the run that are still there. */
  checkpoints: z.array(z.int().nonnegative()),
  /** Where the scenario source stands. */
  position: positionSchema,
  /** Steps whose scenarios are drawn and that are not finished: where the source stood before each draw. */
  draws: z.array(z.object({ step: z.int().nonnegative(), position: positionSchema })),
  evaluations: z.array(evaluationSchema),
  parts: z.array(runPartSchema),
});

export type RunState = z.output<typeof runStateSchema>;

const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** What is known of a job, as `JobState` has it. */
const jobStateSchema = z.object({
  idempotencyKey: z.string(),
  /** Step of the checkpoint that the job trains on from. */
  from: z.int().nonnegative(),
  /** Absent until the service has answered. */
  jobId: z.string().optional(),
  /** Whether the service has said no, or was not reached. */
  isRefused: z.boolean().optional(),
  /** Why it is not known whether the service has the job, its id where it had given one, and whether that was told. */
  lost: z
    .object({ why: z.string(), jobId: z.string().optional(), isTold: z.boolean().optional() })
    .optional(),
  /** Absent until the job has ended: its gradient steps' metrics or why it took none, and the checkpoint after it. */
  outcome: z
    .object({
      gradientSteps: z.array(z.record(z.string(), z.number())),
      untrained: untrainedSchema.optional(),
      step: z.int().nonnegative(),
    })
    .optional(),
});

/**
 * A step's job: its request, by reference. It is on disk before the job is asked for, so that asking again with its key
 * gives the same job; where the service knows no keys, its checkpoint is looked for before it is asked again.
 */
export const jobRecordSchema = jobStateSchema.extend({
  step: z.int().nonnegative(),
  modelId: z.string(),
  /** Pinned name that the job trains on from. */
  policy: z.string(),
  /** As it is sent; null where nothing is. */
  config: z.custom<RlConfig>(isObject).nullable(),
  /** File of the groups, relative to the run directory. */
  trajectories: z.string(),
});

export type JobRecord = z.output<typeof jobRecordSchema>;

/** The job of the warm start. Its conversations are on the service before it is asked for. */
export const warmStartRecordSchema = jobStateSchema.extend({
  request: z.object({
    trainingDataUrl: z.string(),
    batchSize: z.union([z.int(), z.literal('auto')]).optional(),
    learningRate: z.union([z.number(), z.array(z.number())]).optional(),
    assistantTurns: z.enum(['all', 'last']).optional(),
  }),
});

export type WarmStartRecord = z.output<typeof warmStartRecordSchema>;

/** What became of groups that a service without idempotency keys was to log; `asked` where it has not said. */
export const loggingSchema = z.object({ state: z.enum(['asked', 'stored', 'refused']) });

export type LoggingState = z.output<typeof loggingSchema>['state'];

/** What reports of earlier versions do not have. */
export const addedFigures = {
  comparison: null,
  tools: {},
  contextOverflows: 0,
  callsInFlight: 0,
  otherModels: {},
} satisfies Partial<StepReport>;

export const stepReportSchema = z
  .custom<StepReport>(
    (value) => z.looseObject({ step: z.int(), reward: z.number() }).safeParse(value).success,
  )
  .transform((report): StepReport => ({ ...addedFigures, ...report }));
