import { z } from 'zod';
import { type Message, optional, type ToolCall } from '../../contract/index.ts';
import { assistantMessage } from '../../trajectory/index.ts';
import { invalid, unsupported } from '../endpoint-error.ts';
import { asFields, type Fields, parse } from '../read-fields.ts';
import { decodeReasoning } from '../responses/response-object.ts';
import { toArguments } from './message-blocks.ts';

type Content = string | readonly unknown[];

/** A block of a content, and its path in the request. */
interface Block {
  fields: Fields;
  path: string;
}

const text = z.object({ text: z.string() });
const toolUse = z.object({ id: z.string(), name: z.string(), input: z.record(z.string(), z.unknown()) });
const toolResult = z.object({
  tool_use_id: z.string(),
  content: optional(z.union([z.string(), z.array(z.unknown())])),
  is_error: optional(z.boolean()),
});
const thinking = z.object({ thinking: z.string(), signature: optional(z.string()) });

/**
 * Converts a system prompt and messages to chat messages. Assistant messages that follow each other are one reply, and
 * each tool result of a user message is a message of its own.
 * @throws EndpointError that names the block, for images, documents and other unsupported blocks.
 */
export function readConversation(
  system: Content | undefined,
  messages: readonly { role: 'user' | 'assistant' | 'system'; content: Content }[],
): Message[] {
  const read: Message[] = [];
  const instructions = textOf(system ?? '', 'system');
  if (instructions !== '') read.push({ role: 'system', content: instructions });
  let reply: Block[] | undefined;
  const flush = () => {
    if (reply) read.push(readReply(reply));
    reply = undefined;
  };
  for (const [index, { role, content }] of messages.entries()) {
    const path = `messages.${index}.content`;
    if (role === 'assistant') {
      reply = [...(reply ?? []), ...blocksOf(content, path)];
      continue;
    }
    flush();
    if (role === 'system') read.push({ role, content: textOf(content, path) });
    else read.push(...readTurn(content, path));
  }
  flush();
  if (read.at(-1)?.role === 'assistant')
    throw unsupported(
      `messages.${messages.length - 1}.role`,
      'It is "assistant": a request cannot begin the reply. End with a message of the user.',
    );
  return read;
}

/** Between the texts of a content that is not a reply: clients write each as a paragraph of its own. */
const separator = '\n\n';

function readReply(blocks: readonly Block[]): Message {
  let said = '';
  let thought = '';
  const calls: ToolCall[] = [];
  for (const { fields, path } of blocks) {
    if (fields.type === 'text') said += parse(text, fields, path).text;
    else if (fields.type === 'thinking') {
      const { thinking: shown, signature } = parse(thinking, fields, path);
      thought += shown === '' && signature !== undefined ? decodeReasoning(signature) : shown;
    } else if (fields.type === 'tool_use') {
      const { id, name, input } = parse(toolUse, fields, path);
      calls.push({ id, type: 'function', function: { name, arguments: toArguments(input) } });
    } else throw unknownBlock(fields, path, 'text, thinking and tool calls');
  }
  return assistantMessage(said, thought, calls);
}

function readTurn(content: Content, path: string): Message[] {
  const turn: Message[] = [];
  let said: string | undefined;
  const flush = () => {
    if (said !== undefined) turn.push({ role: 'user', content: said });
    said = undefined;
  };
  for (const { fields, path: at } of blocksOf(content, path)) {
    if (fields.type === 'text')
      said = (said === undefined ? '' : said + separator) + parse(text, fields, at).text;
    else if (fields.type === 'tool_result') {
      flush();
      const { tool_use_id, content: result = '', is_error } = parse(toolResult, fields, at);
      const told = textOf(result, `${at}.content`);
      turn.push({ role: 'tool', tool_call_id: tool_use_id, content: is_error ? asError(told) : told });
    } else throw unknownBlock(fields, at, 'text and tool results');
  }
  flush();
  if (turn.length === 0) throw invalid(path, 'is empty.');
  return turn;
}

/** Chat messages have no mark for results that are errors, so the text says it. */
const asError = (told: string): string => (/^\W*error/i.test(told) ? told : `Error: ${told}`);

function textOf(content: Content, path: string): string {
  return blocksOf(content, path)
    .map(({ fields, path: at }) => {
      if (fields.type === 'text') return parse(text, fields, at).text;
      throw unknownBlock(fields, at, 'text');
    })
    .join(separator);
}

function blocksOf(content: Content, path: string): Block[] {
  if (typeof content === 'string') return [{ fields: { type: 'text', text: content }, path }];
  return content.map((block, index) => ({
    fields: asFields(block, `${path}.${index}`),
    path: `${path}.${index}`,
  }));
}

const unknownBlock = ({ type }: Fields, path: string, what: string) =>
  unsupported(`${path}.type`, `It is "${String(type)}"; the models read ${what} here.`);
