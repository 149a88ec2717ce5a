import { z } from 'zod';

const rewardSchema = z
  .union([z.number(), z.boolean()])
  .nullish()
  .transform((reward) => (typeof reward === 'boolean' ? Number(reward) : (reward ?? null)));

/** The answer to a reset or a step. */
const observationSchema = z.object({
  observation: z.record(z.string(), z.unknown()),
  reward: rewardSchema,
  done: z.boolean().default(false),
});

/** What the environment shows after a reset or a step: its own fields, the reward of the step, and whether it ends. */
export type Observed = z.output<typeof observationSchema>;

/** A frame of the server. */
export const frameSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('observation'), data: observationSchema }),
  z.object({
    type: z.literal('error'),
    data: z.looseObject({ message: z.string().default(''), code: z.string().default('unknown') }),
  }),
]);

export type Frame = z.output<typeof frameSchema>;

/** The observation of a step `list_tools`, in environments with tools of the Model Context Protocol. */
export const toolListSchema = z.object({
  tools: z.array(
    z.object({
      name: z.string(),
      description: z.string().nullish(),
      input_schema: z.record(z.string(), z.unknown()).nullish(),
    }),
  ),
});

export type ToolList = z.output<typeof toolListSchema>['tools'];

/** The observation of a step `call_tool`. */
export const toolResultSchema = z.looseObject({
  result: z.unknown(),
  error: z
    .looseObject({ error_type: z.string().default('error'), message: z.string().default('') })
    .nullish(),
});

export const metadataSchema = z.looseObject({
  name: z.string().nullish(),
  description: z.string().nullish(),
});

export const schemasSchema = z.looseObject({ action: z.record(z.string(), z.unknown()) });

export const environmentsSchema = z.array(z.string());
export const splitsSchema = z.array(z.union([z.string(), z.looseObject({ name: z.string() })]));
export const taskCountSchema = z.looseObject({ num_tasks: z.int().nonnegative() });
