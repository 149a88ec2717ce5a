import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultOutput,
} from '@ai-sdk/provider';
import type { Message, ToolCall } from '../contract/index.ts';
import { assistantMessage, type Observations, type PromptMessages } from '../trajectory/index.ts';
import { unsupportedByModel } from './model-error.ts';

type AssistantContent = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'];
type UserMessage = Extract<LanguageModelV4Message, { role: 'user' }>;
type ToolResultPart = Extract<
  Extract<LanguageModelV4Message, { role: 'tool' }>['content'][number],
  { type: 'tool-result' }
>;

/** Parts of replies carry `callId` under this name: in `providerMetadata`, and in `providerOptions` of later prompts. */
export const providerName = 'martingale';

/** A part that is not text. */
interface OtherPart {
  type: string;
  mediaType?: string;
  toolName?: string;
}

/** The text for a part that is not text. `where` is the part's message, for error messages. */
export type OtherText = (part: OtherPart, where: string) => string;

const refuse: OtherText = ({ type, mediaType }, where) => {
  const what = mediaType === undefined ? `a part of type "${type}"` : `a file (${mediaType})`;
  throw unsupportedByModel(`${what} in ${where}`, 'It reads text, tool calls and text results of tools.');
};

/**
 * Converts an AI SDK prompt to chat messages. Each tool result becomes a message of its own.
 * @param otherText Default: refuses files, images and parts of other providers.
 * @throws ModelError of code `unsupported_by_model` for these parts.
 */
export function toPromptMessages(prompt: LanguageModelV4Prompt, otherText = refuse): PromptMessages {
  const messages: Message[] = [];
  const callIds: (string | undefined)[] = [];
  const add = (message: Message, callId?: string) => {
    messages.push(message);
    callIds.push(callId);
  };
  for (const message of prompt) {
    if (message.role === 'system') add({ role: 'system', content: message.content });
    else if (message.role === 'user') add(userMessage(message, otherText));
    else if (message.role === 'assistant')
      add(toAssistantMessage(message.content, otherText), stampedCallId(message.content));
    else {
      for (const part of message.content) {
        // Approvals are between the application and its user. The model sees the tool result that follows.
        if (part.type === 'tool-approval-response') continue;
        add({ role: 'tool', tool_call_id: part.toolCallId, content: toolResultText(part, otherText) });
      }
    }
  }
  return { messages, callIds };
}

function userMessage({ content }: UserMessage, otherText: OtherText): Message {
  const texts = content.map((part) => (part.type === 'text' ? part.text : otherText(part, 'a user message')));
  const [only] = texts;
  if (texts.length === 1 && only !== undefined) return { role: 'user', content: only };
  return { role: 'user', content: texts.map((text) => ({ type: 'text', text })) };
}

/** An assistant message from the parts of a prompt or of a reply. `serialize` writes the input of a tool call. */
export function toAssistantMessage(
  content: readonly (AssistantContent[number] | LanguageModelV4Content)[],
  otherText: OtherText,
  serialize: (input: unknown) => string = (input) => JSON.stringify(input) ?? '{}',
) {
  let text = '';
  let reasoning = '';
  const toolCalls: ToolCall[] = [];
  for (const part of content) {
    if (part.type === 'text') text += part.text;
    else if (part.type === 'reasoning') reasoning += part.text;
    else if (part.type === 'tool-call' && !part.providerExecuted) {
      const { toolCallId: id, toolName: name, input } = part;
      toolCalls.push({ id, type: 'function', function: { name, arguments: serialize(input) } });
    } else text += otherText(part, 'an assistant message');
  }
  return assistantMessage(text, reasoning, toolCalls);
}

/** The call that sampled all parts of the message; undefined if they come from several calls. */
function stampedCallId(content: AssistantContent): string | undefined {
  let found: string | undefined;
  for (const [index, part] of content.entries()) {
    const callId = part.providerOptions?.[providerName]?.callId;
    if (typeof callId !== 'string' || (index > 0 && callId !== found)) return undefined;
    found = callId;
  }
  return found;
}

function toolResultText({ output, toolName }: ToolResultPart, otherText: OtherText): string {
  switch (output.type) {
    case 'text':
    case 'error-text':
      return output.value;
    case 'json':
    case 'error-json':
      return JSON.stringify(output.value);
    case 'execution-denied':
      return output.reason ?? 'Tool execution denied.';
    case 'content':
      return output.value
        .map((part) => (part.type === 'text' ? part.text : otherText(part, `the result of "${toolName}"`)))
        .join('');
  }
}

/**
 * Counts the tool results of a prompt. The AI SDK marks results of tools that threw and of calls that it did not run.
 * A tool that reports its failure as plain text counts as answered.
 */
export function observeToolResults(
  { prompt, tools = [] }: Pick<LanguageModelV4CallOptions, 'prompt' | 'tools'>,
  observations: Observations,
): void {
  const known = new Set(tools.map(({ name }) => name));
  for (const { role, content } of prompt) {
    if (role !== 'tool') continue;
    for (const part of content) {
      if (part.type !== 'tool-result') continue;
      const { toolCallId, toolName, output } = part;
      if (!isError(output)) observations.addToolResult(toolCallId, 'answered');
      else if (!known.has(toolName)) observations.addToolResult(toolCallId, 'unknown');
      else if (isInvalidInput(output, toolName)) observations.addToolResult(toolCallId, 'invalid');
      else observations.addToolResult(toolCallId, 'failed', errorText(output));
    }
  }
}

const errorText = (output: LanguageModelV4ToolResultOutput): string | undefined =>
  output.type === 'error-text'
    ? output.value
    : output.type === 'error-json'
      ? JSON.stringify(output.value)
      : undefined;

const isError = ({ type }: LanguageModelV4ToolResultOutput): boolean =>
  type === 'error-text' || type === 'error-json';

/** Whether the output is the message of the AI SDK's InvalidToolInputError, with or without its name. */
const isInvalidInput = (output: LanguageModelV4ToolResultOutput, tool: string): boolean =>
  output.type === 'error-text' &&
  output.value.replace(/^AI_InvalidToolInputError: /, '').startsWith(`Invalid input for tool ${tool}:`);
