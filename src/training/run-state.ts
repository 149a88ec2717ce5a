import { z } from 'zod';
import { type RlConfig, type TrajectoryTokens, untrainedSchema } from '../contract/index.ts';
import type { JsonValue } from '../environment/index.ts';
import type { StepReport } from '../progress/index.ts';
import { isObject } from '../util/json.ts';
import { RunError } from '../util/run-error.ts';

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

/** A model that trains in the run. */
const learnerSchema = z.object({
  /** Without a step. */
  name: z.string(),
  /** Step of its checkpoint before the first step of the run, then after each finished step. */
  policySteps: z.array(z.int().nonnegative()).min(1),
  /** Its checkpoints of the run that are not deleted. */
  checkpoints: z.array(z.int().nonnegative()),
});

export type LearnerState = z.output<typeof learnerSchema>;

/** Contents of `state.json`. With the other files of the directory, it is all that a resume needs. */
const stateSchema = z.object({
  version: z.literal(2),
  /** Prefix of the idempotency keys for logged trajectories. */
  runId: z.string(),
  finishedSteps: z.int().nonnegative(),
  /** The policy, then the models of seats that train. */
  learners: z.tuple([learnerSchema], learnerSchema),
  /** Current position of the scenario source. */
  position: positionSchema,
  /** Unfinished steps whose scenarios are drawn, each with the position of the source before its draw. */
  draws: z.array(z.object({ step: z.int().nonnegative(), position: positionSchema })),
  evaluations: z.array(evaluationSchema),
  /**
   * Whether each group is sent to the service when it ends, so that jobs and logs name it. It does not change in a run,
   * because a repeated request must be identical.
   */
  storesGroups: z.boolean().default(false),
  /** How these groups are sent. A run that an earlier version began sends them whole to its end. */
  groupForm: z.enum(['whole', 'compact']).default('whole'),
  /** Wall-clock seconds of the run until the state was written, including those before a resume. */
  seconds: z.number().nonnegative(),
});

export const runStateSchema = z.preprocess(refuseEarlier, stateSchema);

/**
 * @throws RunError for the state of a run that an earlier version began: it kept the policy apart from the learners.
 */
function refuseEarlier(state: unknown): unknown {
  if (isObject(state) && state.version === 1)
    throw new RunError(
      'resume_refused',
      'An earlier version of martingale began the run and stored its state in another form. Resume it with that ' +
        'version, or start another run.',
    );
  return state;
}

export type RunState = z.output<typeof stateSchema>;

/** What is known about a job. */
const jobStateSchema = z.object({
  idempotencyKey: z.string(),
  /** Step of the checkpoint that the job starts from. */
  from: z.int().nonnegative(),
  /** Absent until the service has answered. */
  jobId: z.string().optional(),
  /** The service rejected the request or was not reached, so it has no such job. */
  isRefused: z.boolean().optional(),
  /** Why it is unknown whether the service has the job, its id if there was one, and whether that was reported. */
  lost: z
    .object({ why: z.string(), jobId: z.string().optional(), isTold: z.boolean().optional() })
    .optional(),
  /** Absent until the job has ended: metrics of its gradient steps or why it took none, and the checkpoint after it. */
  outcome: z
    .object({
      gradientSteps: z.array(z.record(z.string(), z.number())),
      untrained: untrainedSchema.optional(),
      step: z.int().nonnegative(),
    })
    .optional(),
});

export type JobState = z.output<typeof jobStateSchema>;

/**
 * The training job of a step. It is on disk before the job is requested, so that a repeat with its key returns the same
 * job. If the service has no idempotency keys, its checkpoint is looked for before a repeat.
 */
export const jobRecordSchema = jobStateSchema.extend({
  step: z.int().nonnegative(),
  modelId: z.string(),
  /** Pinned name of the checkpoint that the job starts from. */
  policy: z.string(),
  /** Options as they are sent; null if none are. */
  config: z.custom<RlConfig>(isObject).nullable(),
  /** File of the groups, relative to the run directory. */
  trajectories: z.string(),
});

export type JobRecord = z.output<typeof jobRecordSchema>;

/** The job of the warm start. Its conversations are uploaded before the job is requested. */
export const warmStartRecordSchema = jobStateSchema.extend({
  request: z.object({
    trainingDataUrl: z.string(),
    batchSize: z.union([z.int(), z.literal('auto')]).optional(),
    learningRate: z.union([z.number(), z.array(z.number())]).optional(),
    assistantTurns: z.enum(['all', 'last']).optional(),
  }),
});

/** The request of a supervised training job. */
export type SftRequest = z.output<typeof warmStartRecordSchema>['request'];

/**
 * Outcome of logging groups to a service without idempotency keys. `asked`: the service has not answered yet. `unknown`:
 * nor will it, and the run has said so.
 */
export const loggingSchema = z.object({ state: z.enum(['asked', 'stored', 'unknown', 'refused']) });

/** Default values for fields that reports of earlier versions lack. */
export const addedFigures = {
  comparison: null,
  tools: {},
  contextOverflows: 0,
  callsInFlight: 0,
  rewrittenHistories: 0,
  askedForms: [],
  otherModels: {},
  opponents: [],
} satisfies Partial<StepReport>;

export const stepReportSchema = z
  .custom<StepReport>(
    (value) => z.looseObject({ step: z.int(), reward: z.number() }).safeParse(value).success,
  )
  .transform((report): StepReport => ({ ...addedFigures, ...report }));

/** What a job found of the tokens of a group's trajectories, by their index in the group. */
export interface GroupTokens {
  group: number;
  trajectories: Pick<TrajectoryTokens, 'trajectory' | 'choices'>[];
}
