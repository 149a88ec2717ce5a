import { z } from 'zod';
import { printableLines } from './printable.ts';

const marker = Symbol.for('martingale.error');

/**
 * Base of every error that martingale throws. `code` is stable and meant for programs; `message` is meant for
 * people and says what happened, with which value, and what to do about it. It may quote another machine or a model;
 * control characters are removed, so that it can be shown on a terminal.
 */
export class MartingaleError<Code extends string = string> extends Error {
  readonly [marker] = true;
  readonly code: Code;

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(printableLines(message), options);
    this.name = new.target.name;
    this.code = code;
  }

  /**
   * Whether the value is an error of this class. Unlike `instanceof`, it recognises errors of another installed copy of
   * the package too: those whose class, or a class it extends, has the same name.
   */
  static isInstance<Instance extends MartingaleError>(
    this: abstract new (
      ...given: never
    ) => Instance,
    value: unknown,
  ): value is Instance {
    // biome-ignore lint/complexity/noThisInStatic: subclasses inherit this, and each recognises its own.
    const { name } = this;
    if (typeof value !== 'object' || value === null || !(marker in value)) return false;
    if (name === MartingaleError.name) return true;
    for (let of: unknown = Object.getPrototypeOf(value); of instanceof Object; of = Object.getPrototypeOf(of))
      if (of.constructor.name === name) return true;
    return false;
  }
}

/** One complaint about a request body: where (`loc`), what (`msg`, `type`) and with which value (`input`). */
export const validationIssueSchema = z
  .object({
    loc: z
      .array(z.union([z.string(), z.int()]))
      .describe(
        'Where: `body`, `query`, `path` or `header`, then names of fields and, as integers from 0, places in arrays.',
      ),
    msg: z.string().describe('What is wrong, for people.'),
    type: z.string().describe('What is wrong, for programs.'),
    input: z
      .unknown()
      .describe(
        'The value that is wrong; of what is missing, the object that it is missing in; null where there is none, as of a body that is no JSON. Of a value of more than 1000 characters of JSON a shorter one of its kind: "…" stands for what is left out of a text, an array or an object.',
      ),
    ctx: z.record(z.string(), z.unknown()).optional().describe('What the value was held against.'),
  })
  .meta({ id: 'ValidationIssue' });

/** What clients of chat completions read of an error. */
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
  .describe(
    'On the chat-completions paths, /v1/models and paths that are not there, and of a 405 or 503 on every path.',
  );

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
