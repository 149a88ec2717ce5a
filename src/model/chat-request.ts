import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ToolChoice,
  SharedV4Warning,
} from '@ai-sdk/provider';
import type { ChatCompletionRequest, ResponseFormat, Tool, ToolChoice } from '../contract/index.ts';
import { UnsupportedByModelError } from './errors.ts';
import { extraFields } from './extra-fields.ts';

export interface ChatRequest {
  /** Everything but `messages`, `model`, `seed` and `stream`. */
  settings: Omit<ChatCompletionRequest, 'messages' | 'model' | 'seed' | 'stream'>;
  tools: Tool[] | undefined;
  warnings: SharedV4Warning[];
}

/**
 * Converts the settings of an AI SDK call. Fields of the interface that the AI SDK has no setting for are taken from
 * `providerOptions.martingale`: see `extraFields`.
 * @throws UnsupportedByModelError for a setting that would change the reply and that the service does not have.
 */
export function toChatRequest(options: LanguageModelV4CallOptions): ChatRequest {
  const warnings: SharedV4Warning[] = [];
  // The AI SDK always names itself; no other header would reach the service, and none would change the reply.
  if (Object.keys(options.headers ?? {}).some((name) => name.toLowerCase() !== 'user-agent')) {
    warnings.push({ type: 'unsupported', feature: 'headers', details: 'The client sends its own.' });
  }
  const tools = options.tools?.map((tool) => {
    if (tool.type !== 'function') {
      throw new UnsupportedByModelError(
        `the provider tool "${tool.id}"`,
        'Define a tool with a schema and an `execute` function.',
      );
    }
    if (tool.inputExamples?.length) warnings.push({ type: 'unsupported', feature: 'inputExamples' });
    return toTool(tool);
  });
  const settings: ChatRequest['settings'] = {
    ...extraFields(options.providerOptions),
    logprobs: true,
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

/** That of the provider options, which alone can name several tools, or the AI SDK's own; not both. */
function toolChoiceOf({
  tools,
  toolChoice,
  providerOptions,
}: LanguageModelV4CallOptions): Pick<ChatRequest['settings'], 'tool_choice'> {
  if (extraFields(providerOptions).tool_choice == null)
    return tools?.length ? { tool_choice: toToolChoice(toolChoice) } : {};
  if (toolChoice === undefined || toolChoice.type === 'auto') return {};
  throw new UnsupportedByModelError(
    `"tool_choice" in providerOptions.martingale beside the toolChoice "${toolChoice.type}"`,
    'Give one of them.',
  );
}

/** `auto` is left out: it is what absent means with tools, also to services that know no other value. */
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
  // Absent means that the reply begins without reasoning.
  if (effort === undefined || effort === 'provider-default' || effort === 'none') return undefined;
  if (effort === 'minimal' || effort === 'low' || effort === 'medium' || effort === 'high') return effort;
  throw new UnsupportedByModelError(
    `the reasoning effort "${effort}"`,
    'Use "minimal", "low", "medium", "high" or "none".',
  );
}
