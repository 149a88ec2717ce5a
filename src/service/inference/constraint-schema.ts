import { z } from 'zod';
import type { Constraint } from '../../language/constraint/constraint.ts';

const object = z.record(z.string(), z.unknown());
const style = { whitespace: z.string().optional(), closed: z.boolean().optional() };

const grammarSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text') }),
  z.object({ type: z.literal('json_object'), ...style }),
  z.object({ type: z.literal('json_schema'), schema: object, ...style }),
  z.object({ type: z.literal('regex'), pattern: z.string() }),
  z.object({ type: z.literal('choice'), choices: z.array(z.string()) }),
  z.object({
    type: z.literal('named_json'),
    alternatives: z.array(z.object({ name: z.string(), schema: object })),
  }),
  z.object({ type: z.literal('ebnf'), grammar: z.string() }),
  z.object({ type: z.literal('structural_tag'), tag: object }),
]);

/** A constraint as the store keeps it. */
export const constraintSchema: z.ZodType<Constraint> = z.object({
  reasoning: z
    .object({ open: z.number().int(), close: z.number().int(), limit: z.number().int() })
    .optional(),
  branches: z.array(
    z.object({ open: z.number().int().nullable(), grammar: grammarSchema, repeat: z.boolean() }),
  ),
});
