import { z } from 'zod';
import { json, list, optional, text } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';
import { jsonSchemaSchema } from './tools.ts';

export const textResponseFormatSchema = z
  .strictObject({ type: z.literal('text') })
  .meta({ id: 'TextResponseFormat' });

export const jsonObjectResponseFormatSchema = z
  .strictObject({ type: z.literal('json_object') })
  .meta({ id: 'JsonObjectResponseFormat' });

export const jsonSchemaResponseFormatSchema = z
  .strictObject({
    type: z.literal('json_schema'),
    json_schema: z.strictObject({
      name: text(requestLimits.name),
      description: optional(text(chatLimits.toolDescription)),
      /** Absent: any JSON object. */
      schema: optional(jsonSchemaSchema),
      /** The schema is always enforced, whatever this says. */
      strict: optional(z.boolean()),
    }),
  })
  .meta({ id: 'JsonSchemaResponseFormat' });

export const responseFormatSchema = z
  .discriminatedUnion('type', [
    textResponseFormatSchema,
    jsonObjectResponseFormatSchema,
    jsonSchemaResponseFormatSchema,
  ])
  .meta({
    id: 'ResponseFormat',
    description:
      'JSON is written as structured_outputs says: without white space and, where a schema is silent on it, without further properties. A schema is followed also without strict.',
  });

const kinds = {
  json: optional(z.union([text(chatLimits.schema), jsonSchemaSchema])).describe(
    'JSON of a schema: its text, or an object.',
  ),
  regex: optional(text(chatLimits.regex).min(1)).describe(
    'Text that as a whole matches a regular expression.',
  ),
  choice: optional(list(text(chatLimits.alternativeLength), chatLimits.alternatives).min(1)).describe(
    'One of these texts.',
  ),
  grammar: optional(text(chatLimits.grammar).min(1)).describe(
    'Text of a grammar in GBNF: rules name ::= ..., the first called root.',
  ),
  json_object: optional(z.boolean()).describe('Any JSON object; false asks for nothing.'),
  structural_tag: optional(z.union([text(chatLimits.schema), json(chatLimits.schema)])).describe(
    'Free text in which certain tags, once begun, hold what their schema says: JSON as text, or the object itself.',
  ),
};

const style = {
  disable_any_whitespace: optional(z.boolean()).describe(
    'True, as absent: JSON without white space. False: any white space that JSON allows.',
  ),
  whitespace_pattern: optional(text(chatLimits.whitespacePattern).min(1)).describe(
    'A regular expression of what may stand between the tokens of JSON. Needs JSON; refused with disable_any_whitespace true.',
  ),
  disable_additional_properties: optional(z.boolean()).describe(
    'True, as absent: objects whose schema names properties and is silent on further ones have no further ones. False: they may.',
  ),
};

const backend = {
  disable_fallback: optional(z.boolean()).describe(
    'There is one grammar engine and never another: both values mean that.',
  ),
  _backend: optional(text(requestLimits.name)).describe(
    "auto, or the engine's own name; others are refused.",
  ),
  _backend_was_auto: optional(z.boolean()).describe(
    'Whether auto chose _backend. There is one grammar engine: both values mean that.',
  ),
};

/** Constrains the text of the reply. */
export const structuredOutputsSchema = z.strictObject({ ...kinds, ...style, ...backend }).meta({
  id: 'StructuredOutputs',
  description:
    'At most one of json, regex, choice, grammar, json_object and structural_tag, and none beside a response_format of JSON. The fields that shape JSON apply to response_format as well.',
});

export type ResponseFormat = z.input<typeof responseFormatSchema>;
export type StructuredOutputs = z.input<typeof structuredOutputsSchema>;
