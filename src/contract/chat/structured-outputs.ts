import { z } from 'zod';
import { optional } from '../optional.ts';
import { jsonSchemaSchema } from './tools.ts';

export const responseFormatSchema = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z.object({
      type: z.literal('json_schema'),
      json_schema: z.object({
        name: z.string(),
        description: optional(z.string()),
        schema: optional(jsonSchemaSchema),
        strict: optional(z.boolean()),
      }),
    }),
  ])
  .meta({ id: 'ResponseFormat' });

/** Constrains the text of the reply. One of `json`, `regex`, `choice`, `grammar`, `json_object`, `structural_tag`. */
export const structuredOutputsSchema = z
  .object({
    /** A JSON schema: as text, or as an object as some deployed clients send it. */
    json: optional(z.union([z.string(), jsonSchemaSchema])),
    regex: optional(z.string()),
    choice: optional(z.array(z.string()).min(1)),
    grammar: optional(z.string()),
    json_object: optional(z.boolean()),
    disable_fallback: optional(z.boolean()),
    disable_any_whitespace: optional(z.boolean()),
    disable_additional_properties: optional(z.boolean()),
    whitespace_pattern: optional(z.string()),
    structural_tag: optional(z.string()),
    _backend: optional(z.string()),
    _backend_was_auto: optional(z.boolean()),
  })
  .meta({ id: 'StructuredOutputs' });

export type ResponseFormat = z.input<typeof responseFormatSchema>;
export type StructuredOutputs = z.input<typeof structuredOutputsSchema>;
