import type { ResponseFormat, StructuredOutputs } from '../../contract/index.ts';
import { isObject } from '../../util/json.ts';
import { invalidField, type Location, unsupportedField } from '../error.ts';
import type { Grammar, JsonSchema, JsonStyle } from '../grammar/constraint.ts';
import type { ChatFormat } from '../tokenizer/tokenizer.ts';

/** Parses JSON in a text of the request; undefined if it is not JSON. Throws if it is too large. */
type ParseJson = (text: string, location: Location) => unknown;

/** What a constraint depends on besides the request. */
export interface ConstraintContext {
  format: ChatFormat;
  contextLength: number;
  /** Name of the engine, which is also the name of its grammar backend. */
  engine: string;
  parseJson: ParseJson;
}

interface ContentFields {
  response_format?: ResponseFormat | undefined;
  structured_outputs?: StructuredOutputs | undefined;
}

const kinds = ['json', 'regex', 'choice', 'grammar', 'json_object', 'structural_tag'] as const;

/** White space as JSON defines it (RFC 8259, section 2). */
const anyWhitespace = '[ \\t\\n\\r]*';

/** The language that the text of a reply must belong to, or null if any text is allowed. */
export function contentGrammar(
  { response_format: format, structured_outputs: outputs }: ContentFields,
  { engine, parseJson }: Pick<ConstraintContext, 'engine' | 'parseJson'>,
): Grammar | null {
  checkBackend(outputs?._backend, engine);
  const style = jsonStyle(outputs);
  const fromFormat = responseGrammar(format, style);
  const fromOutputs = outputs ? structuredGrammar(outputs, style, parseJson) : null;
  if (fromFormat && fromOutputs)
    throw invalidField(
      ['structured_outputs'],
      'cannot be combined with response_format; send only one',
      outputs,
    );
  const grammar = fromFormat ?? fromOutputs;
  const isJson = grammar?.type === 'json_object' || grammar?.type === 'json_schema';
  if (outputs?.whitespace_pattern != null && !isJson)
    throw invalidField(
      ['structured_outputs', 'whitespace_pattern'],
      'applies to JSON replies only: also send json, json_object or a JSON response_format',
      outputs.whitespace_pattern,
    );
  return grammar;
}

/** Path of the request field that defines that language. */
export function contentLocation({ structured_outputs: outputs }: ContentFields): string[] {
  const kind = kinds.find((name) => outputs?.[name] != null && outputs[name] !== false);
  return kind ? ['structured_outputs', kind] : ['response_format'];
}

function checkBackend(backend: string | null | undefined, engine: string): void {
  if (backend == null || backend === 'auto' || backend === engine) return;
  throw unsupportedField(
    ['structured_outputs', '_backend'],
    backend,
    `the only grammar backend is ${JSON.stringify(engine)}; send it or "auto", or leave the field out`,
  );
}

function jsonStyle(outputs: StructuredOutputs | undefined): JsonStyle {
  const compact = outputs?.disable_any_whitespace;
  const pattern = outputs?.whitespace_pattern;
  if (pattern != null && compact === true)
    throw invalidField(
      ['structured_outputs', 'whitespace_pattern'],
      'allows white space in JSON, but disable_any_whitespace: true forbids it; send only one',
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
  const { schema } = format.type === 'json_object' ? format : format.json_schema;
  if (!schema) return { type: 'json_object', ...style };
  return { type: 'json_schema', schema, ...style };
}

function structuredGrammar(
  outputs: StructuredOutputs,
  style: JsonStyle,
  parseJson: ParseJson,
): Grammar | null {
  const readObject = (value: string | JsonSchema, field: string, what: string) =>
    toObject(value, { field, what, parseJson });
  const grammars: Grammar[] = [];
  const { json, regex, choice, grammar, structural_tag: tag } = outputs;
  if (json != null)
    grammars.push({ type: 'json_schema', schema: readObject(json, 'json', 'a JSON schema'), ...style });
  if (regex != null) grammars.push({ type: 'regex', pattern: regex });
  if (choice != null) grammars.push({ type: 'choice', choices: choice });
  if (grammar != null) grammars.push({ type: 'ebnf', grammar });
  if (outputs.json_object === true) grammars.push({ type: 'json_object', ...style });
  if (tag != null)
    grammars.push({ type: 'structural_tag', tag: readObject(tag, 'structural_tag', 'a structural tag') });
  if (grammars.length > 1)
    throw invalidField(['structured_outputs'], `allows only one of ${kinds.join(', ')}`, outputs);
  return grammars[0] ?? null;
}

function toObject(
  value: string | JsonSchema,
  { field, what, parseJson }: { field: string; what: string; parseJson: ParseJson },
): JsonSchema {
  if (typeof value !== 'string') return value;
  const parsed = parseJson(value, ['structured_outputs', field]);
  if (isObject(parsed)) return parsed;
  throw invalidField(['structured_outputs', field], `must be ${what}: an object, or its JSON as text`, value);
}
