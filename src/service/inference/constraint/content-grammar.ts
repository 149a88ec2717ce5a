import type { ResponseFormat, StructuredOutputs } from '../../../contract/index.ts';
import type { Grammar, JsonSchema, JsonStyle } from '../../../engines/engine.ts';
import { isObject } from '../../../util/json.ts';

import { invalidField, unsupportedField } from '../../errors.ts';
import { refuseHeavyJson } from '../../json/shape.ts';
import { withoutNotes } from './schema-notes.ts';

export interface ContentFields {
  response_format?: ResponseFormat | undefined;
  structured_outputs?: StructuredOutputs | undefined;
}

const kinds = ['json', 'regex', 'choice', 'grammar', 'json_object', 'structural_tag'] as const;

/** White space as JSON defines it (RFC 8259, section 2). */
const anyWhitespace = '[ \\t\\n\\r]*';

/** The language that the text of a reply must belong to, or null where any text will do. */
export function contentGrammar(
  { response_format: format, structured_outputs: outputs }: ContentFields,
  engine: string,
): Grammar | null {
  checkBackend(outputs?._backend, engine);
  const style = jsonStyle(outputs);
  const fromFormat = responseGrammar(format, style);
  const fromOutputs = outputs ? structuredGrammar(outputs, style) : null;
  if (fromFormat && fromOutputs)
    throw invalidField(
      ['structured_outputs'],
      'cannot be combined with response_format; send one of them',
      outputs,
    );
  const grammar = fromFormat ?? fromOutputs;
  const isJson = grammar?.type === 'json_object' || grammar?.type === 'json_schema';
  if (outputs?.whitespace_pattern != null && !isJson)
    throw invalidField(
      ['structured_outputs', 'whitespace_pattern'],
      'shapes JSON, and this request asks for none: send json, json_object or a response_format of JSON with it',
      outputs.whitespace_pattern,
    );
  return grammar;
}

/** Where that language stands in the request. */
export function contentLocation({ structured_outputs: outputs }: ContentFields): string[] {
  const kind = kinds.find((name) => outputs?.[name] != null && outputs[name] !== false);
  return kind ? ['structured_outputs', kind] : ['response_format'];
}

function checkBackend(backend: string | null | undefined, engine: string): void {
  if (backend == null || backend === 'auto' || backend === engine) return;
  throw unsupportedField(
    ['structured_outputs', '_backend'],
    backend,
    `the one grammar backend here is ${JSON.stringify(engine)}; send that, "auto" or nothing`,
  );
}

function jsonStyle(outputs: StructuredOutputs | undefined): JsonStyle {
  const compact = outputs?.disable_any_whitespace;
  const pattern = outputs?.whitespace_pattern;
  if (pattern != null && compact === true)
    throw invalidField(
      ['structured_outputs', 'whitespace_pattern'],
      'says which white space may stand in JSON, and disable_any_whitespace: true that there is none; send one of them',
      pattern,
    );
  const whitespace = pattern ?? (compact === false ? anyWhitespace : undefined);
  const closed = outputs?.disable_additional_properties ?? undefined;
  return {
    ...(whitespace === undefined ? {} : { whitespace }),
    ...(closed === undefined ? {} : { closed }),
  };
}

function responseGrammar(format: ResponseFormat | undefined, style: JsonStyle): Grammar | null {
  if (!format || format.type === 'text') return null;
  if (format.type === 'json_object') return { type: 'json_object', ...style };
  const { schema } = format.json_schema;
  if (!schema) return { type: 'json_object', ...style };
  return { type: 'json_schema', schema: withoutNotes(schema), ...style };
}

function structuredGrammar(outputs: StructuredOutputs, style: JsonStyle): Grammar | null {
  const grammars: Grammar[] = [];
  const { json, regex, choice, grammar, structural_tag: tag } = outputs;
  if (json != null) {
    const schema = withoutNotes(readObject(json, 'json', 'a JSON schema'));
    grammars.push({ type: 'json_schema', schema, ...style });
  }
  if (regex != null) grammars.push({ type: 'regex', pattern: regex });
  if (choice != null) grammars.push({ type: 'choice', choices: choice });
  if (grammar != null) grammars.push({ type: 'ebnf', grammar });
  if (outputs.json_object === true) grammars.push({ type: 'json_object', ...style });
  if (tag != null)
    grammars.push({ type: 'structural_tag', tag: readObject(tag, 'structural_tag', 'a structural tag') });
  if (grammars.length > 1)
    throw invalidField(['structured_outputs'], `takes one of ${kinds.join(', ')}, not several`, outputs);
  return grammars[0] ?? null;
}

function readObject(value: string | JsonSchema, field: string, what: string): JsonSchema {
  if (typeof value !== 'string') return value;
  refuseHeavyJson(value, { at: ['body', 'structured_outputs', field] });
  try {
    const parsed: unknown = JSON.parse(value);
    if (isObject(parsed)) return parsed;
  } catch {
    // Falls through: the message is the same.
  }
  throw invalidField(['structured_outputs', field], `must be ${what}: an object, or its JSON as text`, value);
}
