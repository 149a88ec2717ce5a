import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultOutput,
} from '@ai-sdk/provider';
import type { Block, ConversationMessage } from '../protocol.ts';
import { OpenRewardError } from '../server.ts';

type MessageBlock = ConversationMessage['blocks'][number];
type FileData = LanguageModelV4FilePart['data'];

const text = (value: string): Block => ({ type: 'text', text: value });

/** A conversation as the standard has it. @throws OpenRewardError (`environment_not_servable`) for other files than images. */
export const toConversation = (prompt: LanguageModelV4Prompt): ConversationMessage[] => prompt.map(toMessage);

function toMessage(message: LanguageModelV4Message): ConversationMessage {
  switch (message.role) {
    case 'system':
      return { role: 'system', blocks: [text(message.content)] };
    case 'user':
      return { role: 'user', blocks: userBlocks(message) };
    case 'assistant':
      return { role: 'assistant', blocks: message.content.flatMap(assistantBlock) };
    case 'tool':
      return {
        role: 'user',
        blocks: message.content.flatMap((part): MessageBlock[] =>
          part.type === 'tool-result'
            ? [
                {
                  type: 'tool_result',
                  tool_call_id: part.toolCallId,
                  blocks: outputBlocks(part.output),
                  is_error: isError(part.output),
                },
              ]
            : [],
        ),
      };
  }
}

const userBlocks = ({ content }: Extract<LanguageModelV4Message, { role: 'user' }>): Block[] =>
  content.map((part) => (part.type === 'text' ? text(part.text) : image(part.data, part.mediaType)));

function assistantBlock(
  part: Extract<LanguageModelV4Message, { role: 'assistant' }>['content'][number],
): MessageBlock[] {
  switch (part.type) {
    case 'text':
      return [text(part.text)];
    case 'reasoning':
      return [{ type: 'reasoning', text: part.text }];
    case 'tool-call':
      return [{ type: 'tool_call', id: part.toolCallId, name: part.toolName, input: inputOf(part.input) }];
    case 'file':
      return [image(part.data, part.mediaType)];
    default:
      return [];
  }
}

const inputOf = (input: unknown): Record<string, unknown> =>
  typeof input === 'object' && input !== null ? { ...input } : {};

/** What the environment answered to an action: results of tools, and what it says as the user. */
export const answerBlocks = (messages: readonly LanguageModelV4Message[]): Block[] =>
  messages.flatMap((message) => {
    if (message.role === 'user') return userBlocks(message);
    return resultsIn([message]).flatMap(outputBlocks);
  });

/** The results of tools in messages. */
export const resultsIn = (messages: readonly LanguageModelV4Message[]): LanguageModelV4ToolResultOutput[] =>
  messages.flatMap((message) =>
    message.role === 'tool'
      ? message.content.flatMap((part) => (part.type === 'tool-result' ? [part.output] : []))
      : [],
  );

export const isError = ({ type }: LanguageModelV4ToolResultOutput): boolean =>
  type === 'error-text' || type === 'error-json';

/** The result of a tool, with the same text that a model here would read. */
export function outputBlocks(output: LanguageModelV4ToolResultOutput): Block[] {
  switch (output.type) {
    case 'text':
    case 'error-text':
      return [text(output.value)];
    case 'json':
    case 'error-json':
      return [text(JSON.stringify(output.value))];
    case 'execution-denied':
      return [text(output.reason ?? 'Tool execution denied.')];
    case 'content':
      return output.value.map((part) => {
        if (part.type === 'text') return text(part.text);
        if (part.type === 'file') return image(part.data, part.mediaType);
        throw notServable(`a part of type "${part.type}" in the result of a tool`);
      });
  }
}

function image(data: FileData, mediaType: string): Block {
  if (!mediaType.startsWith('image') || data.type !== 'data')
    throw notServable(`a file of type ${mediaType}${data.type === 'data' ? '' : ` by ${data.type}`}`);
  const base64 = typeof data.data === 'string' ? data.data : Buffer.from(data.data).toString('base64');
  return { type: 'image', data: base64, mimeType: mediaType };
}

const notServable = (what: string): OpenRewardError =>
  new OpenRewardError(
    'environment_not_servable',
    `the environment shows the model ${what}; the Open Reward Standard has texts, and images with their data`,
  );

/** What the environment says first, as blocks alone, in the form that the standard's own server gives a conversation. */
export function flattened(messages: readonly ConversationMessage[]): object[] {
  const [first] = messages;
  const isPlain = first?.blocks.every(({ type }) => type === 'text' || type === 'image');
  if (messages.length === 1 && first?.role === 'user' && isPlain) return first.blocks;
  return messages.flatMap(({ role, blocks }) => [
    { ...text(`[${role}]`), detail: { role } },
    ...blocks.flatMap(flatBlocks),
  ]);
}

function flatBlocks(block: MessageBlock): object[] {
  switch (block.type) {
    case 'reasoning':
      return [{ ...text(`<think>${block.text}</think>`), detail: { type: 'reasoning' } }];
    case 'tool_call':
      return [
        {
          ...text(`[tool_call ${block.name}] ${JSON.stringify(block.input)}`),
          detail: { type: 'tool_call', id: block.id },
        },
      ];
    case 'tool_result':
      return [
        {
          ...text(block.is_error ? '[tool_result (error)]' : '[tool_result]'),
          detail: { type: 'tool_result', tool_call_id: block.tool_call_id },
        },
        ...block.blocks,
      ];
    default:
      return [block];
  }
}
