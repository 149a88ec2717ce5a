import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ToolChoice,
  SharedV4Warning,
} from '@ai-sdk/provider';
import {
  type ChatCompletionRequest,
  chatCompletionRequestSchema,
  type ResponseFormat,
  type Tool,
  type ToolChoice,
} from '../contract/index.ts';
import { isObject } from '../util/json.ts';
import { unsupportedByModel } from './model-error.ts';
import { providerName } from './prompt-messages.ts';

interface ChatRequest {
  /** All fields except `messages`, `model`, `seed` and `stream`. */
  settings: Omit<ChatCompletionRequest, 'messages' | 'model' | 'seed' | 'stream'>;
  tools: Tool[] | undefined;
  warnings: SharedV4Warning[];
}

/**
 * Converts the settings of an AI SDK call. Fields without an AI SDK setting come from `providerOptions.martingale`; see
 * `extraFields`.
 * @throws ModelError of code `unsupported_by_model` for a setting that the service does not support and that would
 * change the reply.
 */
export function toChatRequest(options: LanguageModelV4CallOptions): ChatRequest {
  const warnings: SharedV4Warning[] = [];
  // The AI SDK always sends its own user agent. Other headers cannot reach the service; warn about them.
  if (Object.keys(options.headers ?? {}).some((name) => name.toLowerCase() !== 'user-agent')) {
    warnings.push({ type: 'unsupported', feature: 'headers', details: 'The client sends its own.' });
  }
  const tools = options.tools?.map((tool) => {
    if (tool.type !== 'function') {
      throw unsupportedByModel(
        `the provider tool "${tool.id}"`,
        'Define a tool with a schema and an `execute` function.',
      );
    }
    if (tool.inputExamples?.length) warnings.push({ type: 'unsupported', feature: 'inputExamples' });
    return toTool(tool);
  });
  const settings: ChatRequest['settings'] = {
    ...extraFields(options.providerOptions),
    return_token_ids: true,
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    max_completion_tokens: options.maxOutputTokens,
    stop: options.stopSequences?.length ? options.stopSequences : undefined,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    reasoning_effort: toReasoningEffort(options.reasoning),
    response_format: toResponseFormat(options.responseFormat),
    ...(tools?.length ? { tools } : {}),
    ...toolChoiceOf(options),
  };
  return { settings, tools: tools?.length ? tools : undefined, warnings };
}

function toTool({ name, description, inputSchema, strict }: LanguageModelV4FunctionTool): Tool {
  return {
    type: 'function',
    function: { name, description, parameters: { ...inputSchema }, strict },
  };
}

/** The tool choice of the provider options, which can name several tools, or the AI SDK's own. Not both. */
function toolChoiceOf({
  tools,
  toolChoice,
  providerOptions,
}: LanguageModelV4CallOptions): Pick<ChatRequest['settings'], 'tool_choice'> {
  if (extraFields(providerOptions).tool_choice == null)
    return tools?.length ? { tool_choice: toToolChoice(toolChoice) } : {};
  if (toolChoice === undefined || toolChoice.type === 'auto') return {};
  throw unsupportedByModel(
    `"tool_choice" in providerOptions.martingale together with the toolChoice "${toolChoice.type}"`,
    'Set only one of them.',
  );
}

/** Omits `auto`, the default with tools: some services reject the field. */
function toToolChoice(choice: LanguageModelV4ToolChoice | undefined): ToolChoice | undefined {
  if (!choice || choice.type === 'auto') return undefined;
  return choice.type === 'tool' ? { type: 'function', function: { name: choice.toolName } } : choice.type;
}

function toResponseFormat(format: LanguageModelV4CallOptions['responseFormat']): ResponseFormat | undefined {
  if (format?.type !== 'json') return undefined;
  if (!format.schema) return { type: 'json_object' };
  return {
    type: 'json_schema',
    json_schema: {
      name: format.name ?? 'response',
      description: format.description,
      schema: { ...format.schema },
      strict: true,
    },
  };
}

function toReasoningEffort(
  effort: LanguageModelV4CallOptions['reasoning'],
): ChatCompletionRequest['reasoning_effort'] {
  if (effort === undefined || effort === 'provider-default') return undefined;
  // Without this field, a checkpoint that reasons may do so.
  if (
    effort === 'none' ||
    effort === 'minimal' ||
    effort === 'low' ||
    effort === 'medium' ||
    effort === 'high'
  )
    return effort;
  throw unsupportedByModel(
    `the reasoning effort "${effort}"`,
    'Use "minimal", "low", "medium", "high" or "none".',
  );
}

type Fields = readonly (keyof ChatCompletionRequest)[];

/** Fields that the model sets itself, because recording depends on them. */
const reserved: Fields = [
  'messages',
  'model',
  'n',
  'stream',
  'stream_options',
  'logprobs',
  'return_token_ids',
  'return_token_logprobs',
];

/** Fields whose replies are not samples of the policy. */
const untrainable: Fields = ['use_beam_search', 'length_penalty'];

/** Fields with an AI SDK setting. If both were set, one would be ignored. */
const ownSettings: Fields = [
  'temperature',
  'top_p',
  'top_k',
  'max_tokens',
  'max_completion_tokens',
  'stop',
  'seed',
  'presence_penalty',
  'frequency_penalty',
  'reasoning_effort',
  'response_format',
  'tools',
  'tool_choice',
  'function_call',
];

const remedies: [Fields, string][] = [
  [reserved, 'The model sets it itself, so that each call is recorded exactly.'],
  [
    untrainable,
    'A beam-search reply is not a sample of the policy and cannot be trained on. Request it with ' +
      '`client.chat.completions.create`.',
  ],
  [ownSettings, 'Use the setting of the AI SDK.'],
];

const known: ReadonlySet<string> = new Set(Object.keys(chatCompletionRequestSchema.shape));

/**
 * Fields of a chat request without an AI SDK setting, from `providerOptions.martingale`, under their wire names, such
 * as `{ repetition_penalty: 1.1, structured_outputs: { regex: '[a-z]+' } }`. Also takes a `tool_choice` of type
 * `allowed_tools`.
 * @throws ModelError of code `unsupported_by_model` for a field that the AI SDK or the model sets, for beam search, and
 * for an unknown field.
 */
function extraFields(
  providerOptions: LanguageModelV4CallOptions['providerOptions'],
): Record<string, unknown> {
  const extra = providerOptions?.[providerName] ?? {};
  for (const name of Object.keys(extra)) {
    if (name === 'tool_choice' && isAllowedTools(extra[name])) continue;
    const [, remedy = known.has(name) ? undefined : 'Unknown field of a chat request.'] =
      remedies.find(([fields]) => fields.some((field) => field === name)) ?? [];
    if (remedy) throw unsupportedByModel(`"${name}" in providerOptions.${providerName}`, remedy);
  }
  return extra;
}

/** A tool choice that names several tools, which the AI SDK cannot express. */
const isAllowedTools = (choice: unknown): boolean => isObject(choice) && choice.type === 'allowed_tools';
