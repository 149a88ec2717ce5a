import { z } from 'zod';
import { json, list, optional, text, withDefault } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';
import { jsonSchemaSchema } from './tools.ts';

export const textResponseFormatSchema = z
  .strictObject({ type: z.literal('text') })
  .meta({ id: 'TextResponseFormat' });

export const jsonObjectResponseFormatSchema = z
  .strictObject({
    type: z.literal('json_object'),
    /** As of json_schema: other servers take it here. Absent: any JSON object. */
    schema: optional(jsonSchemaSchema),
  })
  .meta({ id: 'JsonObjectResponseFormat' });

export const jsonSchemaResponseFormatSchema = z
  .strictObject({
    // The interface lists only `json_schema`.
    type: withDefault(z.literal('json_schema'), 'json_schema'),
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
      'structured_outputs sets the style of the JSON. Default: no white space, and no additional properties unless the schema mentions them. A schema is always enforced, with or without strict.',
  });

const kinds = {
  json: optional(z.union([text(chatLimits.schema), jsonSchemaSchema])).describe(
    'JSON that matches this schema: an object, or its JSON as text.',
  ),
  regex: optional(text(chatLimits.regex).min(1)).describe(
    'Text that matches this regular expression as a whole.',
  ),
  choice: optional(list(text(chatLimits.alternativeLength), chatLimits.alternatives).min(1)).describe(
    'One of these texts.',
  ),
  grammar: optional(text(chatLimits.grammar).min(1)).describe(
    'Text of a GBNF grammar: rules of the form name ::= ..., one of them called root.',
  ),
  json_object: optional(z.boolean()).describe('True: any JSON object. False: no effect.'),
  structural_tag: optional(z.union([text(chatLimits.schema), json(chatLimits.schema)])).describe(
    'Free text in which certain tags, once begun, contain what their schema allows: an object, or its JSON as text.',
  ),
};

const style = {
  disable_any_whitespace: optional(z.boolean()).describe(
    'Default true: JSON without white space. False: any white space that JSON allows.',
  ),
  whitespace_pattern: optional(text(chatLimits.whitespacePattern).min(1)).describe(
    'A regular expression for the white space between JSON tokens. Only for JSON replies. Refused with disable_any_whitespace true.',
  ),
  disable_additional_properties: optional(z.boolean()).describe(
    'Default true: an object whose schema names properties and does not mention additional ones has none. False: it may have any.',
  ),
};

const backend = {
  disable_fallback: optional(z.boolean()).describe('No effect: there is only one grammar engine.'),
  _backend: optional(text(requestLimits.name)).describe(
    "auto or the engine's name. Other values are refused.",
  ),
  _backend_was_auto: optional(z.boolean()).describe('No effect: there is only one grammar engine.'),
};

/** Constrains the text of the reply. */
export const structuredOutputsSchema = z.strictObject({ ...kinds, ...style, ...backend }).meta({
  id: 'StructuredOutputs',
  description:
    'At most one of json, regex, choice, grammar, json_object and structural_tag, and none of them with a JSON response_format. The fields for the style of JSON also apply to response_format.',
});

export type ResponseFormat = z.input<typeof responseFormatSchema>;
export type StructuredOutputs = z.input<typeof structuredOutputsSchema>;
