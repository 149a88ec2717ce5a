import type { ModelMessage, ToolResultPart } from 'ai';
import type { Block, ConversationMessage } from './protocol.ts';
import { OpenRewardError } from './server.ts';

type UserPart = { type: 'text'; text: string } | { type: 'file'; data: string; mediaType: string };

const toPart = (block: Block): UserPart =>
  block.type === 'text'
    ? { type: 'text', text: block.text }
    : { type: 'file', data: block.data, mediaType: block.mimeType };

const textOf = (blocks: readonly Block[]): string =>
  blocks.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n');

/** What a tool returns to the model: text, or with images its parts. */
export function toToolOutput(blocks: readonly Block[]): ToolResultPart['output'] {
  if (blocks.every(({ type }) => type === 'text')) return { type: 'text', value: textOf(blocks) };
  return {
    type: 'content',
    value: blocks.map((block) =>
      block.type === 'text'
        ? { type: 'text', text: block.text }
        : { type: 'file', data: { type: 'data', data: block.data }, mediaType: block.mimeType },
    ),
  };
}

type Role = ConversationMessage['role'];
type BlockType = ConversationMessage['blocks'][number]['type'];

/** What a message can have here. The instructions of a model are text, and only it calls tools and reasons. */
const blockTypes: Record<Role, readonly BlockType[]> = {
  system: ['text'],
  user: ['text', 'image', 'tool_result'],
  assistant: ['text', 'image', 'reasoning', 'tool_call'],
};

/** @throws OpenRewardError (`environment_server_refused`) for a block that no model here would be shown. */
export function checkBlocks(messages: readonly ConversationMessage[], url: string): void {
  for (const [at, { role, blocks }] of messages.entries())
    for (const { type } of blocks)
      if (!blockTypes[role].includes(type))
        throw new OpenRewardError(
          'environment_server_refused',
          `The environment server ${url} began a conversation with a block "${type}" in message ${at}, of the role "${role}". It can have ${blockTypes[role].join(', ')}.`,
        );
}

/** The instructions of a conversation: the text of its system messages. */
export const systemOf = (messages: readonly ConversationMessage[]): string =>
  messages
    .filter(({ role }) => role === 'system')
    .map(({ blocks }) => textOf(blocks.filter((block) => block.type === 'text')))
    .join('\n\n');

/** The other messages. Results of tools are in a user's message there, and in one of their own here. */
export function toModelMessages(messages: readonly ConversationMessage[]): ModelMessage[] {
  const toolNames = new Map<string, string>();
  return messages.flatMap(({ role, blocks }): ModelMessage[] => {
    if (role === 'system') return [];
    if (role === 'assistant') {
      for (const block of blocks) if (block.type === 'tool_call') toolNames.set(block.id, block.name);
      return [{ role, content: blocks.flatMap(assistantPart) }];
    }
    const results = blocks.flatMap((block): ToolResultPart[] =>
      block.type === 'tool_result'
        ? [
            {
              type: 'tool-result',
              toolCallId: block.tool_call_id,
              toolName: toolNames.get(block.tool_call_id) ?? 'unknown',
              output: toToolOutput(block.blocks),
            },
          ]
        : [],
    );
    const parts = blocks.flatMap((block) =>
      block.type === 'text' || block.type === 'image' ? [toPart(block)] : [],
    );
    return [
      ...(results.length > 0 ? [{ role: 'tool' as const, content: results }] : []),
      ...(parts.length > 0 ? [{ role: 'user' as const, content: parts }] : []),
    ];
  });
}

type AssistantPart = Exclude<Extract<ModelMessage, { role: 'assistant' }>['content'], string>[number];

function assistantPart(block: ConversationMessage['blocks'][number]): AssistantPart[] {
  switch (block.type) {
    case 'text':
      return [{ type: 'text', text: block.text }];
    case 'reasoning':
      return [{ type: 'reasoning', text: block.text }];
    case 'tool_call':
      return [{ type: 'tool-call', toolCallId: block.id, toolName: block.name, input: block.input }];
    case 'image':
      return [{ type: 'file', data: block.data, mediaType: block.mimeType }];
    default:
      return [];
  }
}
