import type {
  ParsedChatCompletionRequest,
  ResponseFormat,
  StructuredOutputs,
  Tool,
  ToolChoice,
} from '../../contract/index.ts';
import { canonicalJson, sha256 } from '../../util/json.ts';
import { tagOf } from '../call-forms.ts';
import { invalidField, type Location, unsupportedField } from '../error.ts';
import type {
  Constraint,
  Grammar,
  JsonSchema,
  LimitedReasoning,
  WrittenCalls,
} from '../grammar/constraint.ts';
import { mentions } from '../jinja/template.ts';
import type { ChatFormat, ReasoningTags } from '../tokenizer/tokenizer.ts';
import { type ConstraintContext, contentGrammar, contentLocation } from './content-grammar.ts';

/** The fields of a request (or of a line of training data) that constrain the reply. */
export interface ConstraintFields {
  tools?: Tool[] | undefined;
  tool_choice?: ToolChoice | undefined;
  /** The older form of `tool_choice`. */
  function_call?: 'none' | undefined;
  parallel_tool_calls?: boolean | undefined;
  response_format?: ResponseFormat | undefined;
  structured_outputs?: StructuredOutputs | undefined;
  reasoning_effort?: ParsedChatCompletionRequest['reasoning_effort'];
  continue_final_message?: boolean | undefined;
}

const emptySchema: JsonSchema = { type: 'object', properties: {} };

/** The constraint that the fields define, or null if a reply may be any text. */
export function toConstraint(
  fields: ConstraintFields,
  { format, contextLength, engine, parseJson }: ConstraintContext,
): Constraint | null {
  const tools = fields.tools ?? [];
  const choice = fields.tool_choice ?? fields.function_call ?? (tools.length > 0 ? 'auto' : 'none');
  const content = contentGrammar(fields, { engine, parseJson });
  const mustCall = requiresCall(choice);
  const called = callable(tools, choice);
  if (format.channels) {
    refuseConstrained(fields, {
      isContent: content !== null,
      mustCall,
      isSubset: called.length < tools.length && choice !== 'none',
    });
    return null;
  }
  const isFree = !content && !mustCall && (called.length === 0 || !format.calls);
  const reasoning = toReasoning(fields, { format, contextLength, isFree });
  const freeText = content === null && tools.length === 0 && !mustCall && !reasoning;
  if (freeText) return null;
  const text = content ?? { type: 'text' };
  const grammar = called.length > 0 && (format.calls || mustCall) ? callGrammar() : text;
  return { ...(reasoning ? { reasoning } : {}), grammar };

  function callGrammar(): Grammar {
    const alternatives = called.map((tool) => ({
      name: tool.function.name,
      schema: tool.function.parameters ?? emptySchema,
    }));
    // A named function is called once.
    const isRepeated = fields.parallel_tool_calls !== false && !isNamed(choice);
    const calls = {
      type: 'named_json',
      alternatives,
      written: writtenCalls(format.calls, isRepeated),
    } as const;
    if (mustCall) return calls;
    const tags = reasoning ? null : format.reasoning;
    return {
      type: 'text_or_calls',
      content: text,
      calls,
      tag: format.calls ? tagOf(format.calls) : '',
      reasoning: tags && { open: tags.open, close: tags.close },
    };
  }
}

/**
 * Whether the text of replies has a grammar of its own, so that a tag in it is part of a value: only a whole reply is a
 * call.
 */
export const hasContentGrammar = (constraint: Constraint | null): boolean =>
  constraint?.grammar.type === 'text_or_calls' && constraint.grammar.content.type !== 'text';

function writtenCalls(calls: ChatFormat['calls'], isRepeated: boolean): WrittenCalls {
  if (!calls)
    throw unsupportedField(
      ['tool_choice'],
      'required',
      'this model cannot call tools, because its chat template shows none; serve it with one that does (--chat-template hermes)',
    );
  const { open, beforeName, beforeArguments, after, between, close, mayHaveSpaces } = calls;
  const list = { open, close };
  const notation = calls.arguments;
  return {
    ...{ beforeName, beforeArguments, after, between: isRepeated ? between : null, mayHaveSpaces },
    ...(notation === 'python' ? { python: list } : open === '' ? {} : { list }),
    ...(notation === 'parameters' ? { arguments: notation } : {}),
  };
}

/** Shares of the context that reasoning may take. */
const reasoningShares = { minimal: 1 / 32, low: 1 / 16, medium: 1 / 8, high: 1 / 4 };

function toReasoning(
  { reasoning_effort: effort, continue_final_message: continues }: ConstraintFields,
  { format, contextLength, isFree }: { format: ChatFormat; contextLength: number; isFree: boolean },
): Constraint['reasoning'] {
  const { reasoning, template } = format;
  if (effort === undefined && reasoning?.opened && !isFree && !continues)
    return limitedReasoning(reasoning, contextLength);
  if (effort === undefined || effort === 'none') return undefined;
  if (reasoning) return limitedReasoning(reasoning, Math.floor(contextLength * reasoningShares[effort]));
  // Then the template alone tells the model.
  if (mentions(template, 'reasoning_effort')) return undefined;
  throw unsupportedField(['reasoning_effort'], effort, 'this model has no reasoning; leave the field out');
}

const limitedReasoning = (
  { open, close, afterOpen, afterClose, opened }: ReasoningTags,
  limit: number,
): LimitedReasoning => ({ before: opened ? '' : open + afterOpen, close, after: afterClose, limit });

/** Refuses what needs a constraint: replies in channels are sampled freely, because no grammar knows their headers. */
function refuseConstrained(
  fields: ConstraintFields,
  { isContent, mustCall, isSubset }: { isContent: boolean; mustCall: boolean; isSubset: boolean },
): void {
  const { tool_choice: choice, tools = [], reasoning_effort: effort } = fields;
  const refuse = (location: Location, value: unknown, remedy: string) =>
    unsupportedField(
      location,
      value,
      `this model replies in channels, as gpt-oss does, and such replies are not constrained; ${remedy}`,
    );
  if (isContent) {
    const location = contentLocation(fields);
    const value = location[0] === 'response_format' ? fields.response_format : fields.structured_outputs;
    throw refuse(
      location,
      value,
      'ask for the form in the messages, and give a reply of another form the lowest reward',
    );
  }
  if (mustCall || isSubset)
    throw refuse(['tool_choice'], choice, 'leave it out, or send only the tools that may be called');
  const strict = tools.findIndex((tool) => tool.function.strict === true);
  if (strict >= 0) throw refuse(['tools', strict, 'function', 'strict'], true, 'leave it out');
  if (effort === 'none' || effort === 'minimal')
    throw unsupportedField(
      ['reasoning_effort'],
      effort,
      'this model always reasons, as gpt-oss does; send low, medium or high, or leave it out',
    );
}

/** The name of a constraint: a hash of its JSON with sorted keys. */
export const hashConstraint = (constraint: Constraint): string =>
  `sha256-${sha256(canonicalJson(constraint))}`;

const isNamed = (choice: ToolChoice) => typeof choice === 'object' && choice.type === 'function';

function requiresCall(choice: ToolChoice): boolean {
  if (typeof choice !== 'object') return choice === 'required';
  return choice.type === 'function' || choice.allowed_tools.mode === 'required';
}

/** The tools that a reply may call. */
function callable(tools: Tool[], choice: ToolChoice): Tool[] {
  if (choice === 'none') return [];
  if (choice === 'auto') return tools;
  if (tools.length === 0)
    throw invalidField(['tool_choice'], 'needs tools: there is no tool to call', choice);
  if (choice === 'required') return tools;
  const names = tools.map((tool) => tool.function.name);
  const allowed =
    choice.type === 'function'
      ? [{ name: choice.function.name, at: ['function', 'name'] }]
      : choice.allowed_tools.tools.map((tool, index) => ({
          name: tool.function.name,
          at: ['allowed_tools', 'tools', index, 'function', 'name'],
        }));
  const missing = allowed.find(({ name }) => !names.includes(name));
  if (missing)
    throw invalidField(
      ['tool_choice', ...missing.at],
      `there is no tool ${JSON.stringify(missing.name)} in tools (${names.join(', ')})`,
      missing.name,
    );
  return tools.filter((tool) => allowed.some(({ name }) => name === tool.function.name));
}
