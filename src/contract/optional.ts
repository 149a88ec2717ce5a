import type { z } from 'zod';

/**
 * An optional field of a request body. JSON `null` means the same as absent, everywhere in the interface:
 * deployed clients send every unset option as `null`.
 */
export const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value): z.output<Schema> | undefined => value ?? undefined);

/** An optional field with a default, which `null` stands for too. */
export const withDefault = <Schema extends z.ZodType>(schema: Schema, value: z.output<Schema>) =>
  schema.nullish().transform((given): z.output<Schema> => given ?? value);
