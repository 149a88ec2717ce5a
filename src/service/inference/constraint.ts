import { createHash } from 'node:crypto';
import type { ResponseFormat, StructuredOutputs, Tool, ToolChoice } from '../../contract/index.ts';
import type { ChatFormat, Constraint, Grammar, JsonSchema } from '../../engines/engine.ts';
import { isObject } from '../body.ts';
import { invalidField, unsupportedField } from '../errors.ts';

/** The fields of a request (or of a line of training data) that say what a reply may be. */
export interface ConstraintFields {
  tools?: Tool[] | undefined;
  tool_choice?: ToolChoice | undefined;
  parallel_tool_calls?: boolean | undefined;
  response_format?: ResponseFormat | undefined;
  structured_outputs?: StructuredOutputs | undefined;
}

const emptySchema: JsonSchema = { type: 'object', properties: {} };

/** What the fields allow, or null where a reply may be any text. */
export function toConstraint(fields: ConstraintFields, format: ChatFormat): Constraint | null {
  const tools = fields.tools ?? [];
  const choice = fields.tool_choice ?? (tools.length > 0 ? 'auto' : 'none');
  const content = contentGrammar(fields);
  const branches: Constraint['branches'] = [];
  const mustCall = choice === 'required' || typeof choice === 'object';
  if (!mustCall) branches.push({ open: null, grammar: content ?? { type: 'text' }, repeat: false });
  if (choice !== 'none' && (mustCall || tools.length > 0))
    branches.push({
      open: format.callToken,
      grammar: {
        type: 'named_json',
        alternatives: callable(tools, choice).map((tool) => ({
          name: tool.function.name,
          schema: tool.function.parameters ?? emptySchema,
        })),
      },
      repeat: fields.parallel_tool_calls !== false,
    });
  const freeText = content === null && tools.length === 0 && !mustCall;
  return freeText ? null : { branches };
}

/** Whether replies under this constraint can hold tool calls. */
export function allowsCalls(constraint: Constraint | null, format: ChatFormat): boolean {
  return constraint?.branches.some((branch) => branch.open === format.callToken) ?? false;
}

/** The name of a constraint: a hash of its JSON with sorted keys. */
export function hashConstraint(constraint: Constraint): { hash: string; json: string } {
  const json = JSON.stringify(constraint);
  return { hash: `sha256-${createHash('sha256').update(canonicalJson(constraint)).digest('hex')}`, json };
}

function callable(tools: Tool[], choice: ToolChoice): Tool[] {
  if (tools.length === 0)
    throw invalidField(['tool_choice'], 'a tool can only be called when tools are given', choice);
  if (typeof choice !== 'object') return tools;
  const named = tools.filter((tool) => tool.function.name === choice.function.name);
  if (named.length === 0)
    throw invalidField(
      ['tool_choice', 'function', 'name'],
      `there is no tool ${JSON.stringify(choice.function.name)} in tools (${tools.map((tool) => tool.function.name).join(', ')})`,
      choice.function.name,
    );
  return named;
}

function contentGrammar({ response_format, structured_outputs }: ConstraintFields): Grammar | null {
  const fromFormat = responseGrammar(response_format);
  const fromOutputs = structuredGrammar(structured_outputs);
  if (fromFormat && fromOutputs)
    throw invalidField(['structured_outputs'], 'cannot be combined with response_format; send one of them');
  return fromFormat ?? fromOutputs;
}

function responseGrammar(format: ResponseFormat | undefined): Grammar | null {
  if (!format || format.type === 'text') return null;
  if (format.type === 'json_object') return { type: 'json_object' };
  const { schema } = format.json_schema;
  return schema ? { type: 'json_schema', schema } : { type: 'json_object' };
}

/** Fields that the embedded grammar has no meaning for yet. `false` asks for nothing. */
const unsupported = [
  'grammar',
  'structural_tag',
  'whitespace_pattern',
  'disable_additional_properties',
  '_backend',
  '_backend_was_auto',
] as const;

function structuredGrammar(outputs: StructuredOutputs | undefined): Grammar | null {
  if (!outputs) return null;
  for (const name of unsupported) {
    const value = outputs[name];
    if (value !== undefined && value !== null && value !== false)
      throw unsupportedField(['structured_outputs', name], value);
  }
  const grammars: Grammar[] = [];
  if (outputs.json != null) grammars.push({ type: 'json_schema', schema: readSchema(outputs.json) });
  if (outputs.regex != null) grammars.push({ type: 'regex', pattern: outputs.regex });
  if (outputs.choice != null) grammars.push({ type: 'choice', choices: outputs.choice });
  if (outputs.json_object === true) grammars.push({ type: 'json_object' });
  if (grammars.length > 1)
    throw invalidField(
      ['structured_outputs'],
      'takes one of json, regex, choice and json_object, not several',
    );
  return grammars[0] ?? null;
}

function readSchema(schema: string | JsonSchema): JsonSchema {
  if (typeof schema !== 'string') return schema;
  try {
    const parsed: unknown = JSON.parse(schema);
    if (isObject(parsed)) return parsed;
  } catch {
    // Falls through: the message is the same.
  }
  throw invalidField(
    ['structured_outputs', 'json'],
    'must be a JSON schema: an object, or its JSON as text',
    schema,
  );
}

function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  const entries = Object.keys(value)
    .sort()
    .filter((key) => value[key] !== undefined)
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`);
  return `{${entries.join(',')}}`;
}
