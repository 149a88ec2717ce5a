import { z } from 'zod';

/** One problem of a request: where (`loc`), what (`msg`, `type`) and with which value (`input`). */
export const validationIssueSchema = z
  .object({
    loc: z
      .array(z.string())
      .describe(
        'Path of the value: `body`, `query`, `path` or `header`, then field names and array indices (from 0), all as text. `request` alone: the request as a whole.',
      ),
    msg: z.string().describe('What is wrong, for people.'),
    type: z.string().describe('What is wrong, for programs.'),
    input: z
      .unknown()
      .describe(
        'The wrong value. For a missing field, the object that lacks it. Null if there is no value, such as for a body that is not JSON. A value of more than 1000 characters of JSON is shortened: "…" marks what is left out.',
      ),
    ctx: z
      .record(z.string(), z.unknown())
      .optional()
      .describe('The bound or option that the value violates. Empty if there is none.'),
  })
  .meta({ id: 'ValidationIssue' });

/** The part of an error that clients of chat completions read. */
export const errorDetailSchema = z
  .object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  })
  .meta({ id: 'ErrorDetail' });

const openAiError = errorDetailSchema
  .optional()
  .describe('On the chat completion paths, /v1/models and unknown paths, and for 405 and 503 on every path.');

/** Body of a 422. */
export const validationErrorSchema = z
  .object({ detail: z.array(validationIssueSchema), error: openAiError })
  .meta({ id: 'ValidationError' });

/** Body of every other error. */
export const errorSchema = z
  .object({
    detail: z.string(),
    error: openAiError,
  })
  .meta({ id: 'Error' });

export type ValidationIssue = z.infer<typeof validationIssueSchema>;
export type ErrorBody = z.infer<typeof errorSchema>;
